/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/operands.h"
#include "device/clcall.h"
#include "plan/checked.h"
#include "plan/types.h"
#include <string.h>

const char *cla_operand_name(int which)
{
    static const char *const names[CLA_OPERANDS] = {
        [CLA_Q] = "q",
        [CLA_K] = "k",
        [CLA_V] = "v",
        [CLA_O] = "o",
        [CLA_LSE] = "lse",
        [CLA_M] = "m",
        [CLA_L] = "l",
        [CLA_D_O] = "d_o",
        [CLA_D_Q] = "d_q",
        [CLA_D_K] = "d_k",
        [CLA_D_V] = "d_v",
        [CLA_BIAS_GRAD] = "d_bias",
        [CLA_SINKS_GRAD] = "d_sinks",
        [CLA_STATE] = "state",
        [CLA_FROM] = "from",
        [CLA_WORKSPACE] = "workspace",
        [CLA_NEW_K] = "k_new",
        [CLA_NEW_V] = "v_new",
        [CLA_ROTATED_Q] = "q_rotated",
        [CLA_POSITIONS] = "positions",
        [CLA_ROPE_COS] = "rope_cos",
        [CLA_ROPE_SIN] = "rope_sin",
    };
    const struct cla_feature *of;
    if (which < CLA_SCORE || which >= CLA_SCORE_END)
        return names[which];
    return cla_feature_tensor(which - CLA_SCORE, &of)->path;
}

struct clattn_tensor cla_tensor_of(cl_mem buffer, const struct cla_layout *layout)
{
    return (struct clattn_tensor){.buffer = buffer, .layout = cla_layout_given(layout)};
}

bool cla_operand_is_bare(int which)
{
    const struct cla_feature *of;
    if (which < CLA_SCORE || which >= CLA_SCORE_END)
        return which >= CLA_STATE && which <= CLA_WORKSPACE;
    return cla_feature_is_bare(cla_feature_tensor(which - CLA_SCORE, &of));
}

static clattn_status check_present(const struct cla_call *call, int which, struct cla_error *error)
{
    const struct cla_operand *operand = &call->operands[which];
    if (operand->buffer || !operand->end || call->source == CLA_LAYOUTS)
        return CLATTN_SUCCESS;
    if (call->source == CLA_ARRAYS)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is NULL: it must point to an array of %lld elements",
                        cla_operand_name(which), (long long)operand->end);
    return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s%s is NULL: it must be a cl_mem of at least %lld bytes",
                    cla_operand_name(which), cla_operand_is_bare(which) ? "" : ".buffer",
                    (long long)(operand->end * operand->element_bytes));
}

static bool is_of_keys(int which)
{
    return which == CLA_K || which == CLA_V || (which >= CLA_K_SCALES && which <= CLA_V_ZEROS);
}

/* Whether its elements are those of packed sequences, where the call's are. */
static bool is_packed(const struct cla_call *call, int which)
{
    if (is_of_keys(which))
        return !(call->features & CLATTN_PAGES);
    return which < CLA_BIAS_GRAD || which == CLA_D_LSE || which > CLA_WORKSPACE;
}

/* Whether an array can reach so far; how far it does, its caller alone knows. 64-bit processors have memory of 2^57
 * bytes at most, whatever else a pointer's upper bits say. */
static bool fits_address_space(const struct cla_operand *operand)
{
    const uint64_t bytes = (uint64_t)operand->end * (uint64_t)operand->element_bytes;
    return bytes <= UINT64_C(1) << 57 && bytes <= UINTPTR_MAX - (uintptr_t)operand->buffer;
}

/* What kernels load from an address at a time is a multiple of it: of elements themselves, which are the largest power
 * of two in a block; of the memory that kernels lay out, what they begin its parts at. */
static int alignment_of(int which, const struct cla_operand *operand)
{
    switch (which) {
    case CLA_WORKSPACE:
        return 128;
    case CLA_STATE:
    case CLA_FROM:
        return 64;
    case CLA_DATA: /* these two are counted in bytes */
    case CLA_BLOCK_COLUMNS:
        return 4;
    default:
        return operand->element_bytes & -operand->element_bytes;
    }
}

static clattn_status check_address(int which, const struct cla_operand *operand, struct cla_error *error)
{
    const int alignment = alignment_of(which, operand);
    const char *const suffix = cla_operand_is_bare(which) ? "" : ".buffer";
    if ((uintptr_t)operand->buffer % (unsigned)alignment)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s%s is the address %p: it must be a multiple of %d",
                        cla_operand_name(which), suffix, (void *)operand->buffer, alignment);
    if (!fits_address_space(operand))
        return cla_fail(error, CLATTN_INVALID_LAYOUT,
                        "%s reaches to element %lld from the address %p on: no memory is that large",
                        cla_operand_name(which), (long long)operand->end, (void *)operand->buffer);
    return CLATTN_SUCCESS;
}

/* Takes over where an operand is; of addresses, whether it can be there. */
static clattn_status take_memory(int which, struct cla_operand *operand, cl_mem buffer, int64_t memory,
                                 struct cla_error *error)
{
    const char *const suffix = cla_operand_is_bare(which) ? "_" : ".";
    if (memory < CLATTN_BUFFER || memory > CLATTN_USM)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "%s%smemory is %lld: it is CLATTN_BUFFER (0), CLATTN_SVM (1) or CLATTN_USM (2)",
                        cla_operand_name(which), suffix, (long long)memory);
    operand->buffer = buffer;
    operand->memory = (enum clattn_memory)memory;
    return memory && buffer ? check_address(which, operand, error) : CLATTN_SUCCESS;
}

static clattn_status check_blocks(const char *name, const char *field, int64_t stride, int block,
                                  struct cla_error *error)
{
    if (stride % block == 0)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_LAYOUT,
                    "%s.layout.%s is %lld: elements of this type lie in blocks of %d, so it is a multiple of that",
                    name, field, (long long)stride, block);
}

/* A layout in blocks. (The dense one is made of sizes that count blocks.) */
static clattn_status count_blocks(const char *name, int block, const struct clattn_layout *given,
                                  struct clattn_layout *layout, struct cla_error *error)
{
    *layout = *given;
    if (block <= 1)
        return CLATTN_SUCCESS;
    struct {
        const char *name;
        int64_t *stride;
    } strides[] = {
        {"offset", &layout->offset}, {"batch", &layout->batch}, {"head", &layout->head}, {"row", &layout->row}};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        const clattn_status status = check_blocks(name, strides[i].name, *strides[i].stride, block, error);
        if (status)
            return status;
        *strides[i].stride /= block;
    }
    return CLATTN_SUCCESS;
}

/* Elements of a block are numbered by it alone. */
static clattn_status check_columns(const struct cla_call *call, int which, const struct cla_operand *operand,
                                   struct cla_error *error)
{
    const bool format = (which == CLA_K || which == CLA_V) && cla_type_of(call->problem, which) > CLATTN_BF16;
    if (!format || operand->layout.column == 1 || !operand->end)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_INVALID_LAYOUT,
                    "%s.layout.column is %lld: elements of %s follow each other, so it is 1 or all strides are 0",
                    cla_operand_name(which), (long long)operand->layout.column,
                    cla_type((int)cla_type_of(call->problem, which))->name);
}

clattn_status cla_call_place(struct cla_call *call, int which, const struct clattn_tensor *tensor, int how,
                             struct cla_error *error)
{
    struct cla_operand *operand = &call->operands[which];
    if ((how & CLA_OPTIONAL) && !tensor->buffer)
        return CLATTN_SUCCESS;
    struct clattn_layout layout;
    clattn_status status = count_blocks(cla_operand_name(which), operand->block, &tensor->layout, &layout, error);
    if (!status)
        status = cla_layout_resolve(cla_operand_name(which), &layout, &operand->sizes, how & CLA_OUTPUT,
                                    &operand->layout, &operand->end, error);
    if (!status)
        status = check_columns(call, which, operand, error);
    if (status)
        return status;
    operand->output = how & CLA_OUTPUT;
    status = take_memory(which, operand, tensor->buffer, tensor->memory, error);
    if (status)
        return status;
    if (call->source == CLA_ARRAYS && !fits_address_space(operand))
        return cla_fail(error, CLATTN_INVALID_LAYOUT,
                        "%s.layout reaches to element %lld of the array at %p: no array is that large",
                        cla_operand_name(which), (long long)operand->end, (void *)operand->buffer);
    /* Packed tensors have no batch, but the kernels multiply one by its stride. */
    if ((call->features & CLATTN_VARLEN) && is_packed(call, which))
        operand->layout.batch = 0;
    return check_present(call, which, error);
}

clattn_status cla_call_place_bytes(struct cla_call *call, int which, struct cla_bytes given, bool output,
                                   struct cla_error *error)
{
    struct cla_operand *operand = &call->operands[which];
    *operand = (struct cla_operand){.sizes = {1, 1, 1, (int64_t)given.bytes},
                                    .layout = {.column = 1},
                                    .end = (int64_t)given.bytes,
                                    .element_bytes = 1,
                                    .output = output};
    const clattn_status status = take_memory(which, operand, given.buffer, given.memory, error);
    return status ? status : check_present(call, which, error);
}

clattn_status cla_call_place_workspace(struct cla_call *call, struct cla_bytes given, struct cla_error *error)
{
    const size_t needed = call->workspace_bytes;
    if (!needed || call->source != CLA_BUFFERS)
        return CLATTN_SUCCESS;
    if (given.bytes < needed)
        return cla_fail(error, CLATTN_WORKSPACE_TOO_SMALL, "workspace_bytes is %zu: this shape needs %zu", given.bytes,
                        needed);
    if (!given.buffer)
        return cla_fail(error, CLATTN_WORKSPACE_TOO_SMALL, "workspace is NULL: it must be a cl_mem of %zu bytes",
                        needed);
    given.bytes = needed;
    return cla_call_place_bytes(call, CLA_WORKSPACE, given, true, error);
}

void cla_operand_share(struct cla_operand *operand, const struct cla_operand *from)
{
    operand->buffer = from->buffer;
    operand->memory = from->memory;
    operand->set = from->set;
}

struct cla_argument cla_operand_argument(const struct cla_operand *operand)
{
    const cl_mem *buffer = &operand->buffer;
    if (!*buffer)
        return (struct cla_argument){.size = sizeof *buffer};
    return (struct cla_argument){.size = sizeof *buffer, .value = buffer, .set = operand->set};
}

/* The bytes that an operand takes of its buffer, of the one that this is a part of, where that is known, or of the
 * address space. */
struct span {
    int64_t first, end;
};

static struct span span_of(const struct cla_operand *operand)
{
    const int64_t from = operand->memory ? (int64_t)(uintptr_t)operand->buffer : (int64_t)operand->part.from;
    if (operand->whole && operand->memory)
        return (struct span){from, from + 1};
    if (operand->whole)
        return (struct span){from, operand->part.of ? from + (int64_t)operand->part.bytes : INT64_MAX};
    return (struct span){from + operand->layout.offset * operand->element_bytes,
                         from + operand->end * operand->element_bytes};
}

/* NULL: the address space. */
static cl_mem memory_of(const struct cla_operand *operand)
{
    if (operand->memory)
        return NULL;
    return operand->part.of ? operand->part.of : operand->buffer;
}

static bool share_bytes(const struct cla_operand *a, const struct cla_operand *b)
{
    const struct span in_a = span_of(a), in_b = span_of(b);
    return memory_of(a) == memory_of(b) && in_a.first < in_b.end && in_b.first < in_a.end;
}

/* K and V of a cache, and their scales, may lie among each other, and rows be rotated where they lie. */
static bool may_share(const struct cla_call *call, int output, int other)
{
    const struct cla_operand *a = &call->operands[output], *b = &call->operands[other];
    if (a->output && b->output)
        return is_of_keys(output) && is_of_keys(other);
    return output == CLA_ROTATED_Q && other == CLA_Q && a->buffer == b->buffer &&
           a->element_bytes == b->element_bytes && memcmp(&a->layout, &b->layout, sizeof a->layout) == 0;
}

static clattn_status fail_overlap(const struct cla_call *call, int output, int other, struct cla_error *error)
{
    const struct span a = span_of(&call->operands[output]), b = span_of(&call->operands[other]);
    if (call->operands[output].memory)
        return cla_fail(
            error, CLATTN_INVALID_ARGUMENT,
            "%s (addresses 0x%llx to 0x%llx) overlaps %s (0x%llx to 0x%llx): an output needs a place of its "
            "own",
            cla_operand_name(output), (unsigned long long)a.first, (unsigned long long)(a.end - 1),
            cla_operand_name(other), (unsigned long long)b.first, (unsigned long long)(b.end - 1));
    if (call->operands[output].buffer != call->operands[other].buffer)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "%s (bytes %lld to %lld) overlaps %s (bytes %lld to %lld) in the buffer that both are parts "
                        "of, one of them as a sub-buffer: an output needs a place of its own",
                        cla_operand_name(output), (long long)a.first, (long long)(a.end - 1), cla_operand_name(other),
                        (long long)b.first, (long long)(b.end - 1));
    if (call->operands[other].whole)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "%s (bytes %lld to %lld of its buffer) overlaps %s, which has the same buffer: an output needs "
                        "a place of its own",
                        cla_operand_name(output), (long long)a.first, (long long)(a.end - 1), cla_operand_name(other));
    return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                    "%s (bytes %lld to %lld of its buffer) overlaps %s (bytes %lld to %lld of the same buffer): an "
                    "output needs a place of its own",
                    cla_operand_name(output), (long long)a.first, (long long)(a.end - 1), cla_operand_name(other),
                    (long long)b.first, (long long)(b.end - 1));
}

clattn_status cla_check_overlap(const struct cla_call *call, struct cla_error *error)
{
    if (call->source != CLA_BUFFERS)
        return CLATTN_SUCCESS;
    int there[CLA_OPERANDS], count = 0; /* few of all */
    for (int i = 0; i < CLA_OPERANDS; i++) {
        const struct cla_operand *later = &call->operands[i];
        if (!later->end)
            continue;
        for (int n = 0; n < count; n++) {
            const int j = there[n];
            const struct cla_operand *earlier = &call->operands[j];
            if ((later->output || earlier->output) && share_bytes(later, earlier) && !may_share(call, i, j))
                return later->output ? fail_overlap(call, i, j, error) : fail_overlap(call, j, i, error);
        }
        there[count++] = i;
    }
    return CLATTN_SUCCESS;
}
