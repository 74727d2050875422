/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_RETARGET_H
#define CLA_RETARGET_H

#include "plan/error.h"
#include "plan/text.h"

/* NVIDIA's OpenCL compiler writes PTX, its assembly language, for the target sm_90, and hands that out as the program's
 * binary. Hopper's own instructions (wgmma, setmaxnreg) exist for the target sm_90a alone, which the compiler cannot be
 * asked for. So kernels carry them behind a mark, as comments in asm statements ("//@wgmma.fence.sync.aligned;"), whose
 * operands the compiler fills in all the same; the PTX is then changed to the other target, the marks taken out, and
 * the result built as a binary. */

/* Whether a program's text has such marks. */
bool cla_retarget_wanted(const char *program);

/* Adds to `out` the PTX for sm_90a. `size`: bytes of ptx, any terminating zeros among them. Where setmaxnreg stands
 * behind a mark, `.minnctapersm 1` is added to the kernel: else the assembler ignores that instruction.
 *
 * CLATTN_BUILD_FAILED, with the reason ("... cannot be retargeted ..."), where the PTX is not what is expected in every
 * point that matters: a text of version 8.3 or later (which knows sm_90a, and tensor maps), one .target line, for
 * sm_90; one .entry, with .reqntid and no other directive on its size; its end; marks only at the beginning of what an
 * asm statement put in. */
clattn_status cla_retarget_ptx(const char *ptx, size_t size, struct cla_text *out, struct cla_error *error);

#endif
