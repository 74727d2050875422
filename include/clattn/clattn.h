/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_H
#define CLATTN_H

/* clattn: exact attention for every OpenCL device.
 *
 * Start with <clattn/host.h> for plain arrays, or with <clattn/attention.h> for your own buffers and queues.
 *
 * Rules that hold everywhere
 *   Handles     Types that live are opaque (clattn_context, clattn_plan, clattn_appender, clattn_host,
 *               clattn_host_cache, clattn_tuning). A destroy function takes the address of the handle, sets it to
 *               NULL, and accepts NULL.
 *   Structs     What is said comes in plain structs, what is answered goes into _info structs. A field that is zero
 *               means its default, so `= {.d = 64}` is a complete problem. Structs need only live until the call
 *               returns. They may grow: <clattn/version.h> says how, and what that asks of a program.
 *   Ownership   The caller owns what it made: cl_context, queue, buffers, events that it was given. The library retains
 *               what it keeps, and releases it again.
 *   Units       Sizes in bytes are called bytes; everything else counts elements, rows or work-items.
 *   Errors      Every call that can fail returns a clattn_status and leaves its outputs alone if it does. Arguments are
 *               checked before OpenCL is asked to do anything. clattn_error_message() has the text. The library never
 *               prints, aborts or exits.
 *   Threads     Said once at each type. Functions without a handle may be called from any thread.
 *   Environment Read are the variables named in <clattn/cache.h> (when a context is made, and by that header's
 *               functions) and in <clattn/tuning.h> (by that header's functions), and CLATTN_DISABLE, a list of words
 *               with commas or spaces between: ways of computing that are not to be taken, for comparing. The words
 *               are nvidia_wgmma (nv_wgmma of struct clattn_capabilities is then false), avx512_bf16 (cpu_bf16_dot
 *               is 0), amx_bf16 (cpu_amx_bf16 is 0, and the system is not asked to let the process use AMX), amd_wmma,
 *               amd_mfma and intel_dpas (matrix_unit_right is 0): read when a context is made, which warns of other
 *               words (clattn/log.h), and by clattn_capabilities_apply_known(). A set-user-ID program reads none of
 *               them.
 *   Numbers     Arithmetic is fp32. The error obeys FlashAttention's rule: at most twice that of the plain formula
 *               computed in the input's type, against a float64 reference. NVIDIA's tensor cores form a product of fp32
 *               by three of tf32, within 2^-22 of it, where problem.skeleton names forward_matrix and, in the other
 *               plan of the pair, backward_matrix. That is faster, and less exact (clattn/attention.h). */

#include <clattn/append.h>
#include <clattn/attention.h>
#include <clattn/cache.h>
#include <clattn/device.h>
#include <clattn/host.h>
#include <clattn/host_cache.h>
#include <clattn/log.h>
#include <clattn/plan.h>
#include <clattn/problem.h>
#include <clattn/record.h>
#include <clattn/ring.h>
#include <clattn/score.h>
#include <clattn/standard.h>
#include <clattn/state.h>
#include <clattn/status.h>
#include <clattn/tensor.h>
#include <clattn/traffic.h>
#include <clattn/tuning.h>
#include <clattn/version.h>

#endif
