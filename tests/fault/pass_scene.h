/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_PASS_SCENE_H
#define TEST_FAULT_PASS_SCENE_H

#include "fault/scenario.h"
#include "support/backward_parts.h"

/* The case of the backward pass and of the streaming state, and what their scenes hold. Within passes.c and its like.
 */

enum { Q, K, V, O, D_O, LSE, INPUTS, BYTES = 1 << 16 };
enum { OUT_O, OUT_LSE, OUT_M, OUT_L, OUTS };

/* Arguments of every kind: a number, arrays by head, by pair, and a block mask that takes workspace. */
extern const struct forward_case pass_case;

/* What a scene has beside the forward pass's. */
struct pass_scene {
    struct backward_arrays arrays;
    struct score_stage score;
    void *bias; /* in the problem's type */
    cl_mem inputs[INPUTS], states[2], workspace;
    cl_mem output; /* all outputs, one behind the other, as in scene->output */
};

/* Where the outputs of a pass lie: offsets[i] in elements; answers how many there are in all. */
size_t pass_place_gradients(const struct pass_scene *pass, size_t offsets[GRADIENTS]);
size_t pass_place_results(const struct pass_scene *pass, size_t offsets[OUTS]);

bool pass_open_backward(struct scene *scene);
bool pass_open_state(struct scene *scene);
void pass_close(struct scene *scene);

/* Verdicts. */
bool pass_gradients_right(struct scene *scene);
bool pass_results_right(struct scene *scene);

/* Steps of the device level (pass_device.c), */
clattn_status pass_make_backward_plan(struct scene *scene);
clattn_status pass_make_state_plan(struct scene *scene);
clattn_status pass_run_backward(struct scene *scene);
clattn_status pass_run_state(struct scene *scene);

/* and of the host level (pass_host.c). */
clattn_status pass_make_host(struct scene *scene);
clattn_status pass_stream_host(struct scene *scene);
clattn_status pass_run_host_backward(struct scene *scene);
clattn_status pass_stream_host_backward(struct scene *scene);

#endif
