/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/stage.h"

/* A forward pass in guarded buffers. */

static bool launch(const struct session *session, const clattn_plan *plan, struct stage *stage, bool without_m,
                   struct verify_result *result)
{
    const struct clattn_tensor none = {0};
    struct clattn_forward_args args = {.shape = stage->problem->shape,
                                       .q = stage_tensor(stage, STAGE_Q),
                                       .k = stage_tensor(stage, STAGE_K),
                                       .v = stage_tensor(stage, STAGE_V),
                                       .o = stage_tensor(stage, STAGE_O),
                                       .lse = stage_tensor(stage, STAGE_LSE),
                                       .m = without_m ? none : stage_tensor(stage, STAGE_M),
                                       .l = without_m ? none : stage_tensor(stage, STAGE_L),
                                       .score = stage_score(stage)};
    cl_int code = verify_workspace(session, plan, &args.shape, &args.workspace, &args.workspace_bytes);
    if (!code)
        code = clattn_forward_enqueue(plan, session->queue, &args, 0, NULL, NULL);
    const char *text = code ? clattn_error_message() : "";
    if (!code)
        code = clFinish(session->queue);
    if (args.workspace)
        clReleaseMemObject(args.workspace);
    return code ? verify_error(result, "%s %s", clattn_status_name(code), text) : true;
}

bool verify_forward(const struct session *session, const clattn_plan *plan, const struct verify_case *item,
                    const struct reference_problem *problem, struct verify_data *data, struct verify_result *result)
{
    struct stage stage;
    const bool good = stage_open(session, item, problem, CLATTN_FORWARD, data, &stage, result) &&
                      launch(session, plan, &stage, data->without_m, result) && stage_collect(session, &stage, result);
    stage_close(&stage);
    return good;
}
