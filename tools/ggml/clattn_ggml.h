/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_GGML_H
#define CLATTN_GGML_H

#include <clattn/clattn.h>
#include <ggml.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ggml's GGML_OP_FLASH_ATTN_EXT, the node that ggml_flash_attn_ext makes, computed by clattn. ggml.h is that of the
 * user's ggml. The node and its tensors say everything: types, sizes and strides of q, k, v, mask, sinks and the
 * result, scale, max_bias and logit_softcap. Arithmetic is fp32, whatever ggml_flash_attn_ext_set_prec asks for.
 *
 *     q, the result  f32, f16 or bf16
 *     k, v           f32, f16, bf16, q8_0, q4_0, each by itself; in clattn_ggml_compute any type that ggml can expand
 *                    to f32, which is done first
 *     mask           f16, f32 or bf16, of n_q rows or more, for each head or for some, each batch element or some
 *
 * Threads: one call at a time on one struct clattn_ggml. */

#define CLATTN_GGML_PLANS 64

struct clattn_ggml {
    /* The caller sets these, and keeps them. The queue is in order, of the device and of both contexts. */
    clattn_context *context;
    cl_context cl;
    cl_device_id device;
    cl_command_queue queue;

    /* What the last call that failed had to say. Valid until the next one of its thread. */
    const char *message;

    /* The adapter's own, 0 at first: plans and the problems that they are for, the oldest making room. */
    clattn_plan *plans[CLATTN_GGML_PLANS];
    struct clattn_problem problems[CLATTN_GGML_PLANS];
    unsigned next_plan;
    cl_mem workspace;
    size_t workspace_bytes;
};

/* Gives back what is the adapter's own. Commands already enqueued are not disturbed. */
void clattn_ggml_clear(struct clattn_ggml *ggml);

/* Why clattn does not compute the node, with the argument's name; NULL: it does. on_device: by clattn_ggml_enqueue. Any
 * thread. */
const char *clattn_ggml_refusal(const struct ggml_tensor *node, bool on_device);

/* Computes a node whose tensors lie in the host's memory (`data`), and returns when the result is there. A device that
 * shares this memory, as a CPU does, uses them where they lie. Errors: CLATTN_INVALID_ARGUMENT, those of
 * clattn_plan_create and clattn_forward_enqueue, OpenCL's own. */
clattn_status clattn_ggml_compute(struct clattn_ggml *ggml, const struct ggml_tensor *node);

/* Where a tensor lies on the device: a buffer of the context, and the byte in it at which the tensor begins (a view:
 * the view). false: not there, which ends the call with CLATTN_INVALID_ARGUMENT. */
typedef bool (*clattn_ggml_place)(void *user, const struct ggml_tensor *tensor, cl_mem *buffer, size_t *offset);

/* Enqueues a node whose tensors lie on the device, and does not wait for it. The first call of a problem compiles. Of
 * q8_0 and q4_0, a place that is no whole number of blocks is reached by a sub-buffer: `buffer` is then none itself,
 * and the place a whole number of blocks behind a multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN, as ggml places tensors. */
clattn_status clattn_ggml_enqueue(struct clattn_ggml *ggml, const struct ggml_tensor *node, clattn_ggml_place place,
                                  void *user);

/* What the adapter makes by the host (host.c), the caller's to give back. A tensor as f32, dense: its `data` is to be
 * freed; false: no memory. And for max_bias above 0 what each head multiplies the mask by: ALiBi's slopes
 * (arXiv:2108.12409) of the next smaller power of two heads, the further ones between these. */
bool clattn_ggml_expand(const struct ggml_tensor *tensor, struct ggml_tensor *expanded);
cl_mem clattn_ggml_slopes(cl_context cl, float max_bias, size_t heads, cl_int *code);

#ifdef __cplusplus
}
#endif

#endif
