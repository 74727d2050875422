/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/rows.h"
#include "attention/score.h"
#include "attention/small_program.h"
#include "device/clcall.h"
#include "plan/checked.h"
#include "plan/types.h"

/* Rows of a work-group, where that many fit; and the most items that share one. Of splits there may be many and rows
 * few: several times so many items then share a row, each with some of its states. */
enum { ROWS = 32, MOST_ROW_ITEMS = 16, SPLIT_ROWS = 8, SPLIT_ROW_ITEMS = 32, WIDE_SPLIT_ROW_ITEMS = 64, WIDE = 128 };

/* The statistics of a backward pass take 8 columns an item at once, where d_v is a multiple of that. */
static int most_row_items(int d_v, bool splits, bool backward)
{
    const int pieces = backward && d_v % 8 == 0 ? d_v / 8 : d_v;
    if (splits)
        return d_v > WIDE ? WIDE_SPLIT_ROW_ITEMS : SPLIT_ROW_ITEMS;
    return pieces < MOST_ROW_ITEMS ? pieces : MOST_ROW_ITEMS;
}

static void shape_groups(struct cla_rows *rows, const struct clattn_capabilities *capabilities,
                         const struct clattn_problem *problem, bool splits)
{
    const int most = most_row_items(problem->d_v, splits, cla_problem_is_backward(problem)),
              least = splits ? SPLIT_ROWS : ROWS;
    rows->work_group_size = cla_small_work_group(capabilities);
    rows->most_states = splits ? CLATTN_MAX_SPLITS : 1;
    rows->row_items = 1;
    while (rows->row_items < most && rows->row_items < rows->work_group_size)
        rows->row_items *= 2;
    /* Of short rows a group has more at a time: as many as share its items. */
    const int at_a_time = rows->work_group_size / rows->row_items;
    rows->b_r = at_a_time > least ? at_a_time : least;
    if (splits)
        return;
    if (rows->work_group_size > 1 && rows->work_group_size < rows->b_r)
        rows->b_r = rows->work_group_size;
}

static clattn_status make_program(const struct cla_rows *rows, struct clattn_context *context,
                                  const struct clattn_problem *problem, unsigned features, const char *name,
                                  const char *const *files, cl_program *program, struct cla_error *error)
{
    struct cla_text defines = {0};
    cla_text_printf(&defines,
                    "#define CLATTN_B_R %d\n#define CLATTN_CAUSAL 0\n#define CLATTN_DTYPE %d\n#define CLATTN_D_V %d\n"
                    "#define CLATTN_FEATURES %u\n#define CLATTN_MAX_SPLITS %d\n#define CLATTN_O_TYPE %d\n"
                    "#define CLATTN_ROW_ITEMS %d\n#define CLATTN_STATE 0\n#define CLATTN_WORK_GROUP_SIZE %d\n"
                    "%s",
                    rows->b_r, (int)problem->dtype, problem->d_v, features, rows->most_states,
                    (int)cla_type_of(problem, CLA_O), rows->row_items, rows->work_group_size,
                    problem->split_keys ? "#define CLATTN_SPLIT_KEYS 1\n" : "");
    return cla_small_program(context, name, &defines, files, program, error);
}

static clattn_status make_backward(struct cla_rows *rows, struct clattn_context *context,
                                   const struct clattn_problem *problem, unsigned features, struct cla_error *error)
{
    static const char *const files[] = {"rows.cl", NULL};
    cl_program program = NULL;
    clattn_status status =
        make_program(rows, context, problem, features & CLA_D_SINKS_FEATURES, "rows", files, &program, error);
    if (!status)
        status = cla_kernel_init(&rows->statistics, program, "clattn_statistics", error);
    if (!status && (features & CLATTN_SINKS))
        status = cla_kernel_init(&rows->d_sinks, program, "clattn_d_sinks", error);
    cla_cl_release_program(program);
    return status;
}

static clattn_status make_state(struct cla_rows *rows, struct clattn_context *context,
                                const struct clattn_problem *problem, unsigned features, struct cla_error *error)
{
    static const char *const files[] = {"state.cl", NULL};
    cl_program program = NULL;
    clattn_status status =
        make_program(rows, context, problem, features & CLA_FINISH_FEATURES, "state", files, &program, error);
    if (!status)
        status = cla_kernel_init(&rows->finish, program, "clattn_state_finish", error);
    if (!status && problem->pass == CLATTN_ACCUMULATE)
        status = cla_kernel_init(&rows->begin, program, "clattn_state_begin", error);
    if (!status && problem->pass == CLATTN_ACCUMULATE)
        status = cla_kernel_init(&rows->merge, program, "clattn_state_merge", error);
    cla_cl_release_program(program);
    return status;
}

static clattn_status make_expand(struct cla_rows *rows, struct clattn_context *context, struct cla_error *error)
{
    static const char *const files[] = {"block_mask.cl", NULL};
    struct cla_text defines = {0};
    cl_program program = NULL;
    cla_text_printf(&defines, "#define CLATTN_DTYPE 0\n#define CLATTN_WORK_GROUP_SIZE %d\n", rows->work_group_size);
    clattn_status status = cla_small_program(context, "block_mask", &defines, files, &program, error);
    if (!status)
        status = cla_kernel_init(&rows->expand, program, "clattn_expand", error);
    cla_cl_release_program(program);
    return status;
}

clattn_status cla_rows_make(struct cla_rows *rows, struct clattn_context *context, const struct clattn_problem *problem,
                            unsigned features, bool splits, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    shape_groups(rows, &context->capabilities, problem, splits);
    if (cla_problem_is_backward(problem))
        status = make_backward(rows, context, problem, features, error);
    if (problem->pass == CLATTN_ACCUMULATE || splits)
        status = make_state(rows, context, problem, features, error);
    if (!status && (features & CLATTN_BLOCK_MASK))
        status = make_expand(rows, context, error);
    return status;
}

void cla_rows_finish(struct cla_rows *rows)
{
    struct cla_kernel *const kernels[] = {&rows->statistics, &rows->d_sinks, &rows->begin,
                                          &rows->merge,      &rows->finish,  &rows->expand};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cla_kernel_finish(kernels[i]);
}

clattn_status cla_rows_check(const struct cla_rows *rows, const struct cla_call *call, bool narrow,
                             struct cla_error *error)
{
    const struct clattn_shape *shape = &call->shape;
    const int least = rows->b_r < 16 ? rows->b_r : 16; /* rows of a group; a block of a mask has 16 or more */
    const int64_t limit = narrow ? UINT32_MAX / rows->work_group_size : INT32_MAX;
    int64_t groups;
    if (!cla_multiply(cla_ceil_div(shape->n_q, least), shape->heads, &groups) ||
        !cla_multiply(groups, shape->batch, &groups) || groups > limit)
        return cla_fail(error, CLATTN_TOO_LARGE,
                        "shape: batch %lld x heads %lld x n_q %lld rows are more than can be worked on at once: split "
                        "the batch",
                        (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q);
    return CLATTN_SUCCESS;
}

static clattn_status launch(const struct cla_rows *rows, struct cla_kernel *kernel, struct cla_chain *chain,
                            const struct cla_argument *arguments, size_t count, int64_t groups, struct cla_error *error)
{
    if (!groups)
        return CLATTN_SUCCESS;
    return cla_chain_launch(chain, kernel, arguments, (cl_uint)count, (size_t)groups, (size_t)rows->work_group_size,
                            error);
}

static struct cla_argument buffer_argument(const struct cla_call *call, int which)
{
    return cla_operand_argument(&call->operands[which]);
}

#define VALUE(x)                                                                                                       \
    {                                                                                                                  \
        .size = sizeof(x), .value = &(x)                                                                               \
    }
#define COUNT(array) (sizeof(array) / sizeof *(array))

clattn_status cla_rows_expand(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                              struct cla_error *error)
{
    if (!cla_score_is_csr(call))
        return CLATTN_SUCCESS;
    const struct cla_operand *offsets = &call->operands[CLA_BLOCK_OFFSETS];
    const struct cla_layout *dense = &call->score.block_mask;
    const int64_t batch = dense->batch ? offsets->sizes.batch : 1, heads = dense->head ? offsets->sizes.heads : 1;
    const cl_long dense_offset = dense->offset;
    const cl_int head_count = (cl_int)heads, row_count = (cl_int)(offsets->sizes.rows - 1);
    const cl_int column_count = (cl_int)dense->row;
    const cl_int count = (cl_int)(call->operands[CLA_BLOCK_COLUMNS].end / (int64_t)sizeof(int32_t));
    const struct cla_argument arguments[] = {buffer_argument(call, CLA_BLOCK_OFFSETS),
                                             buffer_argument(call, CLA_BLOCK_COLUMNS),
                                             buffer_argument(call, CLA_WORKSPACE),
                                             VALUE(offsets->layout),
                                             VALUE(dense_offset),
                                             VALUE(head_count),
                                             VALUE(row_count),
                                             VALUE(column_count),
                                             VALUE(count)};
    const int64_t groups = column_count ? batch * heads * row_count : 0;
    return launch(rows, &rows->expand, chain, arguments, COUNT(arguments), groups, error);
}

clattn_status cla_rows_statistics(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                                  const struct cla_layout *at, const struct cla_words *cleared, struct cla_error *error)
{
    const struct cla_operand *operands = call->operands, *o = &operands[CLA_O];
    const int64_t groups = o->sizes.batch * o->sizes.heads * cla_ceil_div(o->sizes.rows, rows->b_r);
    /* A group that only clears words must not take itself for one of rows. */
    const cl_int heads = (cl_int)o->sizes.heads, row_count = groups ? (cl_int)o->sizes.rows : 0;
    const cl_long first_word = cleared->first, words = cleared->count;
    const struct cla_argument arguments[] = {buffer_argument(call, CLA_O),
                                             buffer_argument(call, CLA_D_O),
                                             buffer_argument(call, CLA_LSE),
                                             buffer_argument(call, CLA_M),
                                             buffer_argument(call, CLA_L),
                                             buffer_argument(call, CLA_WORKSPACE),
                                             VALUE(o->layout),
                                             VALUE(operands[CLA_D_O].layout),
                                             VALUE(operands[CLA_LSE].layout),
                                             VALUE(operands[CLA_M].layout),
                                             VALUE(operands[CLA_L].layout),
                                             VALUE(*at),
                                             VALUE(heads),
                                             VALUE(row_count),
                                             VALUE(first_word),
                                             VALUE(words),
                                             buffer_argument(call, CLA_D_LSE),
                                             VALUE(operands[CLA_D_LSE].layout)};
    const size_t count = COUNT(arguments) - (call->features & CLATTN_LSE_GRADIENT ? 0 : 2);
    return launch(rows, &rows->statistics, chain, arguments, count, groups || !words ? groups : 1, error);
}

clattn_status cla_rows_d_sinks(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                               const struct cla_layout *at, struct cla_error *error)
{
    const struct cla_operand *d_sinks = &call->operands[CLA_SINKS_GRAD];
    const struct clattn_shape *shape = &call->shape;
    const cl_int batch = (cl_int)shape->batch, heads = (cl_int)shape->heads, n_q = (cl_int)shape->n_q;
    struct cla_argument arguments[7 + CLA_SCORE_ARGUMENTS] = {buffer_argument(call, CLA_WORKSPACE),
                                                              buffer_argument(call, CLA_SINKS_GRAD),
                                                              VALUE(*at),
                                                              VALUE(d_sinks->layout),
                                                              VALUE(batch),
                                                              VALUE(heads),
                                                              VALUE(n_q)};
    const cl_uint more = cla_score_arguments(call, call->features & CLA_D_SINKS_FEATURES, false, arguments + 7);
    return launch(rows, &rows->d_sinks, chain, arguments, 7 + more, shape->heads, error);
}

clattn_status cla_state_locate(int d_v, const struct clattn_shape *shape, int states, struct cla_state_places *places,
                               struct cla_error *error)
{
    if (cla_states_place(d_v, shape, states, places))
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_TOO_LARGE,
                    "shape: a state of batch %lld x heads %lld x n_q %lld rows is more than can be addressed",
                    (long long)shape->batch, (long long)shape->heads, (long long)shape->n_q);
}

clattn_status cla_rows_begin(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                             const struct cla_state_places *places, struct cla_error *error)
{
    const cl_long l = places->l, o = places->o, row_count = places->rows;
    const struct cla_argument arguments[] = {buffer_argument(call, CLA_STATE), VALUE(l), VALUE(o), VALUE(row_count)};
    return launch(rows, &rows->begin, chain, arguments, COUNT(arguments), cla_ceil_div(places->rows, rows->b_r), error);
}

clattn_status cla_rows_merge(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call,
                             const struct cla_state_places *places, struct cla_error *error)
{
    const cl_long l = places->l, o = places->o, row_count = places->rows;
    const struct cla_argument arguments[] = {buffer_argument(call, CLA_STATE), buffer_argument(call, CLA_FROM),
                                             VALUE(l), VALUE(o), VALUE(row_count)};
    return launch(rows, &rows->merge, chain, arguments, COUNT(arguments), cla_ceil_div(places->rows, rows->b_r), error);
}

clattn_status cla_rows_results(struct cla_rows *rows, struct cla_chain *chain, const struct cla_call *call, int from,
                               const struct cla_state_places *places, struct cla_error *error)
{
    const struct cla_operand *operands = call->operands;
    const struct clattn_shape *shape = &call->shape;
    const cl_long l = places->l, o = places->o;
    const struct cla_forward_params params = {.o = operands[CLA_O].layout,
                                              .lse = operands[CLA_LSE].layout,
                                              .m = operands[CLA_M].layout,
                                              .l = operands[CLA_L].layout,
                                              .batch = (int32_t)shape->batch,
                                              .heads = (int32_t)shape->heads,
                                              .n_q = (int32_t)shape->n_q,
                                              .splits = places->states};
    struct cla_argument arguments[8 + CLA_SCORE_ARGUMENTS] = {buffer_argument(call, from),
                                                              buffer_argument(call, CLA_O),
                                                              buffer_argument(call, CLA_LSE),
                                                              buffer_argument(call, CLA_M),
                                                              buffer_argument(call, CLA_L),
                                                              VALUE(l),
                                                              VALUE(o),
                                                              VALUE(params)};
    const cl_uint more = cla_score_arguments(call, call->features & CLA_FINISH_FEATURES, false, arguments + 8);
    const int64_t groups = shape->batch * shape->heads * cla_ceil_div(shape->n_q, rows->b_r);
    return launch(rows, &rows->finish, chain, arguments, 8 + more, groups, error);
}
