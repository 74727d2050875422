/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/backward.h"
#include "attention/forward.h"
#include "attention/stages.h"
#include "device/clcall.h"
#include "device/report.h"

/* The word that a kernel says it in, once all that came before is done. */
static clattn_status read_word(const struct cla_pointers *pointers, cl_command_queue queue,
                               const struct cla_operand *workspace, int64_t at, cl_uint wait_count,
                               const cl_event *wait_list, uint32_t *word, struct cla_error *error)
{
    const size_t from = (size_t)at * sizeof *word;
    cl_event here = NULL;
    clattn_status status;
    if (workspace->memory)
        status = cla_pointers_read(pointers, workspace->memory, queue, (const char *)workspace->buffer + from,
                                   sizeof *word, word, wait_count, wait_list, &here, error);
    else
        status = cla_cl_enqueue_read(queue, workspace->buffer, from, sizeof *word, word, wait_count, wait_list, &here,
                                     error);
    if (status)
        return status;
    status = cla_cl_wait(1, &here, error);
    if (status) { /* the read may yet come, and `word` is the caller's */
        struct cla_error ignored;
        cla_cl_finish(queue, &ignored);
    }
    cla_cl_release_event(here);
    return status;
}

clattn_status cla_backward_check(const struct clattn_plan *plan, cl_command_queue queue,
                                 const struct clattn_backward_args *args, cl_uint wait_count, const cl_event *wait_list,
                                 struct cla_error *error)
{
    const struct cla_dispatch to = cla_to_queue(queue, wait_count, wait_list, NULL);
    struct cla_call call;
    struct cla_recipe recipe;
    uint32_t given_up = 0;
    clattn_status status =
        cla_backward_arguments(&plan->problem, plan->features, plan, CLA_BUFFERS, args, &call, error);
    if (!status)
        status = cla_dispatch_checks(plan->context, &to, &call, error);
    if (!status)
        status = cla_recipe_make(plan, &call.shape, &call, call.recipe_byte, &recipe, error);
    if (!status && recipe.stuck_region >= 0)
        status = read_word(&plan->context->pointers, queue, &call.operands[CLA_WORKSPACE],
                           recipe.regions[recipe.stuck_region].first + recipe.stuck_word, wait_count, wait_list,
                           &given_up, error);
    if (status || !given_up)
        return status;
    return cla_fail(error, CLATTN_KERNEL_STUCK,
                    "%s: a work-group has waited for another until it gave up, and the gradients are wrong: please "
                    "report the problem and its sizes; problem.skeleton = \"backward_matrix\" waits for none",
                    plan->info.skeleton);
}

clattn_status clattn_backward_check(const clattn_plan *plan, cl_command_queue queue,
                                    const struct clattn_backward_args *args, cl_uint wait_count,
                                    const cl_event *wait_list)
{
    struct cla_error error;
    const bool chunks = plan && plan->problem.pass == CLATTN_BACKWARD_ACCUMULATE;
    clattn_status status = cla_plan_check_pass(plan, chunks ? CLATTN_BACKWARD_ACCUMULATE : CLATTN_BACKWARD,
                                               "clattn_backward_check", &error);
    if (!status)
        status = cla_backward_check(plan, queue, args, wait_count, wait_list, &error);
    return status ? cla_report(plan ? &plan->context->log : NULL, &error) : CLATTN_SUCCESS;
}
