/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a code object says of its kernels: a note in MessagePack, as LLVM's guide to its AMDGPU back end has it. */
#ifndef SIMULATED_NOTES_H
#define SIMULATED_NOTES_H

#include "object.h"

/* Takes names, arguments and sizes of work-groups into object->kernels. */
bool notes_read(const uint8_t *notes, size_t bytes, struct object *object);

#endif
