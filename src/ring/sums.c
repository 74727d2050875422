/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/sums.h"
#include "attention/small_program.h"
#include "device/clcall.h"
#include "plan/checked.h"

enum { BLOCK = 4096 }; /* CLATTN_BLOCK of cl/ring.cl */

clattn_status cla_sums_make(struct cla_sums *sums, clattn_context *context, struct cla_error *error)
{
    static const char *const files[] = {"ring.cl", NULL};
    struct cla_text defines = {0};
    cl_program program = NULL;
    sums->work_group_size = cla_small_work_group(&context->capabilities);
    cla_text_printf(&defines, "#define CLATTN_DTYPE 0\n#define CLATTN_WORK_GROUP_SIZE %d\n", sums->work_group_size);
    clattn_status status = cla_small_program(context, "ring", &defines, files, &program, error);
    if (!status)
        status = cla_kernel_init(&sums->add, program, "clattn_ring_add", error);
    if (!status)
        status = cla_kernel_init(&sums->round, program, "clattn_ring_round", error);
    if (!status)
        status = cla_kernel_init(&sums->join, program, "clattn_ring_join", error);
    cla_cl_release_program(program);
    return status;
}

void cla_sums_free(struct cla_sums *sums)
{
    cla_kernel_finish(&sums->add);
    cla_kernel_finish(&sums->round);
    cla_kernel_finish(&sums->join);
}

static clattn_status check_groups(int64_t groups, struct cla_error *error)
{
    if (groups <= INT32_MAX / 256)
        return CLATTN_SUCCESS;
    return cla_fail(error, CLATTN_TOO_LARGE, "gradients of a rank in %lld blocks of %d elements: take more ranks",
                    (long long)groups, BLOCK);
}

clattn_status cla_sums_add(struct cla_sums *sums, const struct cla_dispatch *to, const struct cla_piece *into,
                           const struct cla_piece *from, int64_t count, enum clattn_dtype type, struct cla_error *error)
{
    const cl_long sums_at = into->at, from_at = from->at, elements = count;
    const cl_int kind = (cl_int)type;
    const int64_t blocks = cla_ceil_div(count, BLOCK);
    const struct cla_argument arguments[] = {
        {sizeof(cl_mem), &into->buffer, NULL}, {sizeof(cl_mem), &from->buffer, NULL}, {sizeof sums_at, &sums_at, NULL},
        {sizeof from_at, &from_at, NULL},      {sizeof elements, &elements, NULL},    {sizeof kind, &kind, NULL}};
    const clattn_status status = check_groups(blocks, error);
    return status ? status
                  : cla_kernel_launch(&sums->add, to, arguments, sizeof arguments / sizeof *arguments, (size_t)blocks,
                                      (size_t)sums->work_group_size, error);
}

clattn_status cla_sums_round(struct cla_sums *sums, const struct cla_dispatch *to, cl_mem rounded, cl_mem from,
                             int64_t count, enum clattn_dtype type, struct cla_error *error)
{
    const cl_long elements = count;
    const cl_int kind = (cl_int)type;
    const int64_t blocks = cla_ceil_div(count, BLOCK);
    const struct cla_argument arguments[] = {{sizeof(cl_mem), &rounded, NULL},
                                             {sizeof(cl_mem), &from, NULL},
                                             {sizeof elements, &elements, NULL},
                                             {sizeof kind, &kind, NULL}};
    const clattn_status status = check_groups(blocks, error);
    return status ? status
                  : cla_kernel_launch(&sums->round, to, arguments, sizeof arguments / sizeof *arguments, (size_t)blocks,
                                      (size_t)sums->work_group_size, error);
}

clattn_status cla_sums_join(struct cla_sums *sums, const struct cla_dispatch *to, cl_mem state,
                            const struct cla_state_places *places, const struct cla_joined *joined,
                            struct cla_error *error)
{
    const int together = joined->columns < BLOCK ? BLOCK / joined->columns : 1;
    const cl_long l_at = places->l, o_at = places->o;
    const cl_int rows = (cl_int)joined->rows, columns = joined->columns, rows_together = together;
    const struct cla_argument arguments[] = {{sizeof(cl_mem), &state, NULL},
                                             {sizeof(cl_mem), &joined->o, NULL},
                                             {sizeof(cl_mem), &joined->m, NULL},
                                             {sizeof(cl_mem), &joined->l, NULL},
                                             {sizeof l_at, &l_at, NULL},
                                             {sizeof o_at, &o_at, NULL},
                                             {sizeof rows, &rows, NULL},
                                             {sizeof columns, &columns, NULL},
                                             {sizeof rows_together, &rows_together, NULL}};
    return cla_kernel_launch(&sums->join, to, arguments, sizeof arguments / sizeof *arguments,
                             (size_t)cla_ceil_div(joined->rows, together), (size_t)sums->work_group_size, error);
}
