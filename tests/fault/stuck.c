/* SPDX-License-Identifier: BSD-2-Clause
 *
 * No kernel of a CPU waits for others: the layer writes the word by which one says that it gave up. */
#include "fault/stuck.h"
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { HEADS = 2, ROWS = 40, D = 16, COUNT = HEADS * ROWS * D, UNTOUCHED = 0x7eee };

static clattn_status backward(clattn_host *host, const uint16_t *zeros, uint16_t outputs[3][COUNT])
{
    static const float lse[HEADS * ROWS];
    const struct clattn_problem problem = {.pass = CLATTN_BACKWARD,
                                           .dtype = CLATTN_FP16,
                                           .d = D,
                                           .unordered = 1,
                                           .b_c = 64,
                                           .skeleton = "backward_fused_emulated"};
    const struct clattn_host_backward_args args = {.shape = {.batch = 1, .heads = HEADS, .n_q = ROWS, .n_kv = ROWS},
                                                   .q = zeros,
                                                   .k = zeros,
                                                   .v = zeros,
                                                   .o = zeros,
                                                   .d_o = zeros,
                                                   .lse = lse,
                                                   .d_q = outputs[0],
                                                   .d_k = outputs[1],
                                                   .d_v = outputs[2]};
    return clattn_host_backward(host, &problem, &args);
}

static bool all_are(uint16_t outputs[3][COUNT], uint16_t value)
{
    for (int i = 0; i < 3 * COUNT; i++)
        if (outputs[i / COUNT][i % COUNT] != value)
            return false;
    return true;
}

static bool complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, clattn_error_message());
    return false;
}

static bool told_once(clattn_host *host, const struct fault_control *layer)
{
    static const uint16_t zeros[COUNT];
    static uint16_t outputs[3][COUNT];
    for (int i = 0; i < 3 * COUNT; i++)
        outputs[i / COUNT][i % COUNT] = UNTOUCHED;
    layer->give_up();
    if (backward(host, zeros, outputs) != CLATTN_KERNEL_STUCK)
        return complain("a kernel gave up, and the call does not say so");
    if (!strstr(clattn_error_message(), "backward_fused_emulated: a work-group has waited"))
        return complain("the message does not name the kernel");
    if (!all_are(outputs, UNTOUCHED))
        return complain("outputs of a kernel that gave up are handed over");
    if (backward(host, zeros, outputs) || !all_are(outputs, 0))
        return complain("the next call fails");
    return true;
}

bool stuck_is_told(clattn_context *context, const struct fault_control *layer)
{
    const struct clattn_host_params params = {.context = context};
    clattn_host *host = NULL;
    const bool good = clattn_host_create(&host, &params) ? complain("no host") : told_once(host, layer);
    clattn_host_destroy(&host);
    return good;
}
