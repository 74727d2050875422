/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/standard_plan.h"
#include "plan/checked.h"

/* CLBlast 1.5 passes offsets and strides to its kernels as int, and rounds matrices up to tiles of at most this many
 * rows and columns in buffers of its own. */
enum { LARGEST_TILE = 256 };

/* Floats between the rows of a packed matrix. Rows that touch would make CLBlast take the matrix where it lies, and
 * version 1.5 then forgets the offset and stride of a batch. */
enum { PACKED_GAP = 4 };

static int64_t round_up(int64_t value, int64_t multiple)
{
    return cla_ceil_div(value, multiple) * multiple;
}

static bool is_gemm_operand(const struct cla_operand *operand)
{
    const struct cla_sizes *sizes = &operand->sizes;
    const struct cla_layout *layout = &operand->layout;
    return operand->element_bytes == sizeof(float) && (layout->column == 1 || sizes->columns == 1) &&
           (layout->row >= sizes->columns || sizes->rows == 1) && operand->end <= INT32_MAX;
}

static clattn_status too_large(const struct cla_call *forward, struct cla_error *error)
{
    const struct clattn_shape *shape = &forward->shape;
    return cla_fail(error, CLATTN_TOO_LARGE,
                    "shape: standard attention on batch %lld, heads %lld, n_q %lld, n_kv %lld needs a matrix of 2^31 "
                    "elements or more, and CLBlast counts in 32 bits: take shorter sequences or a smaller batch",
                    (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q, (long long)shape->n_kv);
}

/* Takes the next aligned region of the workspace; false where it ends beyond what CLBlast can address. */
static bool take_region(int64_t *used, int64_t align, int64_t elements, int64_t *offset)
{
    *offset = round_up(*used, align);
    if (!cla_add(*offset, elements, used))
        return false;
    return *used <= INT32_MAX;
}

static bool place_packed(const struct cla_operand *operand, int64_t align, int64_t *used, struct cla_matrix *matrix)
{
    const struct cla_sizes *sizes = &operand->sizes;
    int64_t elements;
    matrix->ld = sizes->columns + PACKED_GAP;
    return cla_multiply(sizes->rows, matrix->ld, &matrix->head) &&
           cla_multiply(sizes->heads, matrix->head, &matrix->batch) &&
           cla_multiply(sizes->batch, matrix->batch, &elements) && take_region(used, align, elements, &matrix->offset);
}

static void describe_matrices(struct cla_standard *standard)
{
    const struct clattn_shape *shape = &standard->forward.shape;
    for (int i = 0; i < CLA_LSE; i++) {
        const struct cla_operand *operand = &standard->forward.operands[i];
        const bool keys = i == CLA_K || i == CLA_V;
        standard->matrices[i] =
            (struct cla_matrix){.offset = operand->layout.offset,
                                .batch = operand->layout.batch,
                                .head = operand->layout.head,
                                .ld = operand->sizes.rows == 1 ? operand->sizes.columns : operand->layout.row,
                                .rows = operand->sizes.rows,
                                .columns = operand->sizes.columns,
                                .share = keys ? shape->heads / shape->kv_heads : 1,
                                .packed = !is_gemm_operand(operand)};
    }
}

/* The most heads whose matrices CLBlast can address when it has rounded them up; 0 where not even one. */
static int64_t most_heads(const struct cla_standard *standard)
{
    const struct cla_matrix *matrices = standard->matrices;
    const int64_t n_q = round_up(matrices[CLA_Q].rows, LARGEST_TILE);
    const int64_t n_kv = round_up(matrices[CLA_K].rows, LARGEST_TILE);
    const int64_t d = round_up(matrices[CLA_Q].columns, LARGEST_TILE);
    const int64_t d_v = round_up(matrices[CLA_V].columns, LARGEST_TILE);
    const int64_t longer = n_q > n_kv ? n_q : n_kv, wider = d > d_v ? d : d_v;
    return cla_smaller(INT32_MAX / (n_q * n_kv), INT32_MAX / (longer * wider));
}

static int64_t longest_run(const struct cla_standard *standard)
{
    int64_t longest = 0;
    for (int64_t first = 0, count; first < standard->heads; first += count) {
        count = cla_standard_run(standard, first);
        if (count > longest)
            longest = count;
    }
    return longest;
}

clattn_status cla_standard_plan(const struct cla_call *forward, size_t align_bytes, struct cla_standard *standard,
                                struct cla_error *error)
{
    const struct clattn_shape *shape = &forward->shape;
    const int64_t align = (int64_t)(align_bytes > sizeof(float) ? align_bytes / sizeof(float) : 1);
    int64_t used = 0, rows, key_rows;
    *standard = (struct cla_standard){.forward = *forward};
    if (forward->empty)
        return CLATTN_SUCCESS;
    /* What is copied or zeroed has a work-group for each row. */
    if (!cla_multiply(shape->batch, shape->heads, &standard->heads) ||
        !cla_multiply(standard->heads, shape->n_q, &rows) || !cla_multiply(shape->batch, shape->kv_heads, &key_rows) ||
        !cla_multiply(key_rows, shape->n_kv, &key_rows) || rows > INT32_MAX || key_rows > INT32_MAX)
        return too_large(forward, error);
    describe_matrices(standard);
    if (!shape->n_kv)
        return CLATTN_SUCCESS;

    /* Where packed matrices lie among themselves decides the runs, their place in the workspace does not. */
    struct cla_matrix *matrices = standard->matrices;
    for (int i = 0; i < CLA_LSE; i++) {
        int64_t from_zero = 0;
        if (matrices[i].packed && !place_packed(&forward->operands[i], align, &from_zero, &matrices[i]))
            return too_large(forward, error);
    }
    standard->heads_at_once = most_heads(standard);
    if (!standard->heads_at_once)
        return too_large(forward, error);
    standard->heads_at_once = longest_run(standard);
    used = standard->heads_at_once * shape->n_q * shape->n_kv;
    for (int i = 0; i < CLA_LSE; i++)
        if (matrices[i].packed && !place_packed(&forward->operands[i], align, &used, &matrices[i]))
            return too_large(forward, error);
    standard->workspace_bytes = (size_t)used * sizeof(float);
    return CLATTN_SUCCESS;
}

int64_t cla_matrix_offset(const struct cla_matrix *matrix, const struct cla_standard *standard, int64_t head)
{
    const int64_t heads = standard->forward.shape.heads;
    return matrix->offset + head / heads * matrix->batch + head % heads / matrix->share * matrix->head;
}

static int64_t step_to(const struct cla_standard *standard, int which, int64_t head)
{
    const struct cla_matrix *matrix = &standard->matrices[which];
    return cla_matrix_offset(matrix, standard, head) - cla_matrix_offset(matrix, standard, head - 1);
}

int64_t cla_standard_run(const struct cla_standard *standard, int64_t first)
{
    const int64_t most = cla_smaller(standard->heads_at_once, standard->heads - first);
    int64_t count = 1;
    while (count < most) {
        for (int i = 0; i < CLA_LSE; i++) {
            const int64_t step = step_to(standard, i, first + count);
            if (step < 0 || step != step_to(standard, i, first + 1))
                return count;
        }
        count++;
    }
    return count;
}
