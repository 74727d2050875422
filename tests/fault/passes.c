/* SPDX-License-Identifier: BSD-2-Clause */
#include "fault/passes.h"
#include "fault/pass_scene.h"

static const struct step backward_steps[] = {{"clattn_context_create", scene_make_context},
                                             {"clattn_plan_create", pass_make_backward_plan},
                                             {"clattn_backward_enqueue", pass_run_backward},
                                             {0}};
static const struct step state_steps[] = {{"clattn_context_create", scene_make_context},
                                          {"clattn_plan_create", pass_make_state_plan},
                                          {"clattn_state_..._enqueue", pass_run_state},
                                          {0}};
static const struct step host_backward_steps[] = {{"clattn_context_create", scene_make_context},
                                                  {"clattn_host_create", pass_make_host},
                                                  {"clattn_host_backward", pass_run_host_backward},
                                                  {"clattn_host_backward again", pass_run_host_backward},
                                                  {0}};
static const struct step backward_stream_steps[] = {
    {"clattn_context_create", scene_make_context},
    {"clattn_host_create", pass_make_host},
    {"clattn_host_backward with kv_chunk", pass_stream_host_backward},
    {"clattn_host_backward with kv_chunk again", pass_stream_host_backward},
    {0}};
static const struct step stream_steps[] = {{"clattn_context_create", scene_make_context},
                                           {"clattn_host_create", pass_make_host},
                                           {"clattn_host_forward with kv_chunk", pass_stream_host},
                                           {"clattn_host_forward with kv_chunk again", pass_stream_host},
                                           {0}};

/* Programs are built, kept and found again by the code that the forward pass's scenarios watch. */
const struct scenario pass_scenarios[] = {
    {.name = "backward",
     .steps = backward_steps,
     .warm_only = true,
     .open = pass_open_backward,
     .close = pass_close,
     .right = pass_gradients_right},
    {.name = "backward, host level",
     .steps = host_backward_steps,
     .warm_only = true,
     .open = pass_open_backward,
     .close = pass_close,
     .right = pass_gradients_right},
    {.name = "state",
     .steps = state_steps,
     .warm_only = true,
     .open = pass_open_state,
     .close = pass_close,
     .right = pass_results_right},
    {.name = "gradients with keys in pieces, host level",
     .steps = backward_stream_steps,
     .sparse = true, /* programs and way of "backward, host level", chunks of "keys in pieces" */
     .warm_only = true,
     .open = pass_open_backward,
     .close = pass_close,
     .right = pass_gradients_right},
    {.name = "keys in pieces, host level",
     .steps = stream_steps,
     .warm_only = true,
     .open = pass_open_state,
     .close = pass_close,
     .right = pass_results_right},
};
const int pass_scenario_count = sizeof pass_scenarios / sizeof pass_scenarios[0];
