/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/standard_kernels.h"
#include "attention/small_program.h"
#include "device/clcall.h"
#include "plan/kernel_params.h"
#include "plan/types.h"

static clattn_status make_program(struct clattn_context *context, size_t work_group_size, const char *name,
                                  const char *const *files, enum clattn_dtype dtype, enum clattn_dtype o_type,
                                  enum clattn_causal causal, cl_program *program, struct cla_error *error)
{
    struct cla_text defines = {0};
    cla_text_printf(&defines,
                    "#define CLATTN_CAUSAL %d\n#define CLATTN_DTYPE %d\n#define CLATTN_FEATURES 0\n"
                    "#define CLATTN_O_TYPE %d\n#define CLATTN_STATE 0\n#define CLATTN_WORK_GROUP_SIZE %d\n",
                    (int)causal, (int)dtype, (int)o_type, (int)work_group_size);
    return cla_small_program(context, name, &defines, files, program, error);
}

static clattn_status make_softmax(struct cla_standard_kernels *kernels, struct clattn_context *context,
                                  enum clattn_causal causal, struct cla_error *error)
{
    static const char *const files[] = {"softmax_rows.cl", NULL};
    cl_program program = NULL;
    clattn_status status = make_program(context, kernels->work_group_size, "softmax_rows", files, CLATTN_FP32,
                                        CLATTN_FP32, causal, &program, error);
    if (!status)
        status = cla_kernel_init(&kernels->softmax, program, "clattn_softmax_rows", error);
    cla_cl_release_program(program);
    return status;
}

/* Whether any tensor goes through our own copies: O does too where there are only zeros to write. */
static bool needs_copies(const struct cla_standard *standard)
{
    bool needed = !standard->forward.shape.n_kv;
    for (int i = 0; i < CLA_LSE; i++)
        needed = needed || standard->matrices[i].packed;
    return needed;
}

static clattn_status make_copies(struct cla_standard_kernels *kernels, struct clattn_context *context,
                                 const struct clattn_problem *problem, struct cla_error *error)
{
    static const char *const files[] = {"pack.cl", NULL};
    cl_program program = NULL;
    clattn_status status = make_program(context, kernels->work_group_size, "pack", files, problem->dtype,
                                        cla_type_of(problem, CLA_O), CLATTN_FULL, &program, error);
    if (!status)
        status = cla_kernel_init(&kernels->pack, program, "clattn_pack", error);
    if (!status)
        status = cla_kernel_init(&kernels->unpack, program, "clattn_unpack", error);
    cla_cl_release_program(program);
    return status;
}

clattn_status cla_standard_kernels_make(struct cla_standard_kernels *kernels, struct clattn_context *context,
                                        const struct clattn_problem *problem, const struct cla_standard *standard,
                                        struct cla_error *error)
{
    kernels->work_group_size = (size_t)cla_small_work_group(&context->capabilities);
    const clattn_status status = make_softmax(kernels, context, problem->causal, error);
    if (status || !needs_copies(standard))
        return status;
    return make_copies(kernels, context, problem, error);
}

void cla_standard_kernels_finish(struct cla_standard_kernels *kernels)
{
    cla_kernel_finish(&kernels->softmax);
    cla_kernel_finish(&kernels->pack);
    cla_kernel_finish(&kernels->unpack);
}

clattn_status cla_standard_softmax(struct cla_standard_kernels *kernels, cl_command_queue queue,
                                   const struct cla_standard *standard, cl_mem scores, int64_t first, int64_t count,
                                   struct cla_error *error)
{
    const struct cla_call *forward = &standard->forward;
    const struct cla_operand *operands = forward->operands;
    const struct clattn_shape *shape = &forward->shape;
    const struct cla_forward_params params = {.lse = operands[CLA_LSE].layout,
                                              .m = operands[CLA_M].layout,
                                              .l = operands[CLA_L].layout,
                                              .batch = (int32_t)shape->batch,
                                              .heads = (int32_t)shape->heads,
                                              .kv_heads = (int32_t)shape->kv_heads,
                                              .n_q = (int32_t)shape->n_q,
                                              .n_kv = (int32_t)shape->n_kv};
    const cl_int first_head = (cl_int)first;
    const struct cla_argument arguments[6] = {{.size = sizeof scores, .value = scores ? &scores : NULL},
                                              cla_operand_argument(&operands[CLA_LSE]),
                                              cla_operand_argument(&operands[CLA_M]),
                                              cla_operand_argument(&operands[CLA_L]),
                                              {.size = sizeof params, .value = &params},
                                              {.size = sizeof first_head, .value = &first_head}};
    const struct cla_dispatch to = cla_to_queue(queue, 0, NULL, NULL);
    return cla_kernel_launch(&kernels->softmax, &to, arguments, 6, (size_t)(count * shape->n_q),
                             kernels->work_group_size, error);
}

/* Copies an operand to its packed place, or from it; `floats` NULL: zeros. */
static clattn_status copy_operand(const struct cla_standard *standard, cl_command_queue queue,
                                  struct cla_kernel *kernel, size_t work_group_size, int which, cl_mem floats,
                                  struct cla_error *error)
{
    const struct cla_operand *operand = &standard->forward.operands[which];
    const struct cla_matrix *matrix = &standard->matrices[which];
    const struct cla_sizes *sizes = &operand->sizes;
    const cl_int heads = (cl_int)sizes->heads, rows = (cl_int)sizes->rows, columns = (cl_int)sizes->columns;
    const cl_long offset = matrix->offset, row = matrix->ld;
    const struct cla_argument arguments[] = {cla_operand_argument(operand),
                                             {.size = sizeof floats, .value = floats ? &floats : NULL},
                                             {.size = sizeof operand->layout, .value = &operand->layout},
                                             {.size = sizeof heads, .value = &heads},
                                             {.size = sizeof rows, .value = &rows},
                                             {.size = sizeof columns, .value = &columns},
                                             {.size = sizeof offset, .value = &offset},
                                             {.size = sizeof row, .value = &row}};
    const struct cla_dispatch to = cla_to_queue(queue, 0, NULL, NULL);
    return cla_kernel_launch(kernel, &to, arguments, sizeof arguments / sizeof *arguments,
                             (size_t)(sizes->batch * sizes->heads * sizes->rows), work_group_size, error);
}

clattn_status cla_standard_pack(struct cla_standard_kernels *kernels, cl_command_queue queue,
                                const struct cla_standard *standard, int which, cl_mem workspace,
                                struct cla_error *error)
{
    return copy_operand(standard, queue, &kernels->pack, kernels->work_group_size, which, workspace, error);
}

clattn_status cla_standard_unpack(struct cla_standard_kernels *kernels, cl_command_queue queue,
                                  const struct cla_standard *standard, int which, cl_mem workspace,
                                  struct cla_error *error)
{
    return copy_operand(standard, queue, &kernels->unpack, kernels->work_group_size, which, workspace, error);
}
