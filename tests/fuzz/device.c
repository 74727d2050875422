/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Random calls of the device level, on buffers that end at guard pages:
 *
 *     fuzz_device SEED PLANS CALLS       so many plans, so many calls of each
 *     fuzz_device SEED :PLAN CALLS       that plan alone
 *     fuzz_device --overrun              buffers claim a page more than they have: the first call must crash
 *
 * What is accepted runs: a touch beyond a buffer, a write to an input or a trap ends the program, with the call. What
 * is refused must leave the outputs as they were. */
#define _GNU_SOURCE /* sigaction */
#include "support/device.h"
#include "fuzz/device_call.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct test_device device;
static struct memories memories;
static struct call call;
static char plan_text[400];
static long accepted, refused, unspoilt, wrong;

static void crashed(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    char text[1200], sizes[400];
    const struct memory *memory = memory_at(&memories, info->si_addr);
    call_describe(&call, sizes, sizeof sizes);
    const int length = snprintf(text, sizeof text, "signal %d at %s, byte %ld of %zu\n%s\n%s\n", signal_number,
                                memory ? memory->name : "no buffer",
                                memory ? (long)((unsigned char *)info->si_addr - memory->first) : 0,
                                memory ? memory->bytes : 0, plan_text, sizes);
    _exit(write(2, text, (size_t)length) < 0 ? 98 : 97);
}

static void watch_signals(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaction(signals[i], &action, NULL);
}

/* How operands are stored: K and V in any format where there are no gradients. */
static void choose_types(struct dice *from, struct clattn_problem *problem)
{
    const bool backward = problem->pass & 1;
    const int64_t kinds = backward ? CLATTN_AS_INT8 : CLATTN_AS_Q4_0 + 1;
    problem->o_type = (enum clattn_operand_type)(dice(from, 3) ? 0 : dice(from, 2));
    if (problem->features & CLATTN_BIAS)
        problem->bias_type = dice(from, 2) ? 0 : dice(from, CLATTN_AS_INT8);
    problem->q_type = dice(from, 3) ? 0 : dice(from, CLATTN_AS_INT8);
    problem->k_type = dice(from, 2) ? 0 : dice(from, kinds);
    problem->v_type = dice(from, 2) ? 0 : dice(from, kinds);
    if (problem->k_type >= CLATTN_AS_INT8 && problem->k_type <= CLATTN_AS_FP8_E5M2)
        problem->k_scale_group = dice(from, 2) ? 0 : 1 + dice(from, 40);
    if (problem->v_type >= CLATTN_AS_INT8 && problem->v_type <= CLATTN_AS_FP8_E5M2)
        problem->v_scale_group = dice(from, 2) ? 0 : 1 + dice(from, 40);
    if ((problem->k_type == CLATTN_AS_INT8 || problem->k_type == CLATTN_AS_INT4) && dice(from, 2))
        problem->zero_points |= CLATTN_K_ZEROS;
    if ((problem->v_type == CLATTN_AS_INT8 || problem->v_type == CLATTN_AS_INT4) && dice(from, 2))
        problem->zero_points |= CLATTN_V_ZEROS;
}

/* Each feature that the pass has, now and then. */
static void choose_features(struct dice *from, struct clattn_problem *problem)
{
    const unsigned never = problem->pass & 1 ? CLATTN_PAGES : CLATTN_LSE_GRADIENT;
    for (unsigned feature = CLATTN_WINDOW; feature <= CLATTN_TREE_MASK; feature *= 2)
        problem->features |= dice(from, 3) || feature == never ? 0 : feature;
    if (problem->features & CLATTN_BLOCK_MASK) {
        problem->block_q = 16 * (1 + (int)dice(from, 3));
        problem->block_kv = 16 * (1 + (int)dice(from, 3));
    }
    if (problem->features & CLATTN_PAGES)
        problem->page_keys = 1 + dice(from, dice(from, 2) ? 4 : 40);
    if (problem->features & CLATTN_WINDOW)
        problem->window_corner = dice(from, 3);
    if (problem->features & CLATTN_WINDOW && !(problem->pass & 1))
        problem->sink_keys = dice(from, 2) ? 0 : dice(from, 40);
}

static struct clattn_problem choose_problem(struct dice *from)
{
    static const char *const forward[] = {NULL, NULL, "forward_simt", "forward_cpu", "forward_matrix_emulated"};
    static const char *const backward[] = {NULL, NULL, "backward_simt", "backward_cpu", "backward_matrix_emulated"};
    struct clattn_problem problem = {.pass = (enum clattn_pass)dice(from, 4),
                                     .dtype = (enum clattn_dtype)dice(from, 3),
                                     .causal = (enum clattn_causal)dice(from, 3),
                                     .d = 1 + (int)dice(from, dice(from, 2) ? 16 : 70),
                                     .d_v = dice(from, 2) ? 0 : 1 + (int)dice(from, 24),
                                     .unordered = !dice(from, 4)};
    choose_features(from, &problem);
    choose_types(from, &problem);
    if (problem.pass == CLATTN_FORWARD && !dice(from, 3))
        problem.splits = 2 + (int)dice(from, 4);
    problem.skeleton = (problem.pass & 1 ? backward : forward)[dice(from, 5)];
    return problem;
}

static void complain(const char *what, clattn_status status)
{
    char sizes[400];
    call_describe(&call, sizes, sizeof sizes);
    fprintf(stderr, "%s: %d: %.200s\n%s\n%s\n", what, status, status ? clattn_error_message() : "", plan_text, sizes);
}

/* Whether the answer is one of the library's own. */
static bool is_refusal(clattn_status status)
{
    return status <= CLATTN_INVALID_ARGUMENT && status >= CLATTN_TOO_LARGE;
}

static void judge(clattn_status status)
{
    const cl_int finished = clFinish(device.queue);
    accepted += !status;
    refused += is_refusal(status);
    if (is_refusal(status) && !call.spoilt && ++unspoilt)
        complain("refused, though nothing is wrong", status);
    if (status && call.problem->pass != CLATTN_ACCUMULATE && !memory_untouched(&memories) && ++wrong)
        complain("refused, but has written to an output", status);
    if (((status && !is_refusal(status)) || finished) && ++wrong)
        complain("an error of OpenCL's", status ? status : finished);
}

/* False where there is no such plan: a skeleton that is named may decline. */
static bool run_plan(uint64_t seed, long number, long calls)
{
    struct dice dice;
    dice_seed(&dice, seed, (uint64_t)number);
    const struct clattn_problem problem = choose_problem(&dice);
    clattn_plan *plan = NULL;
    snprintf(
        plan_text, sizeof plan_text,
        "seed %llu plan %ld: pass %d dtype %d types %lld %lld %lld causal %d d %d d_v %d features 0x%x skeleton %s "
        "splits %d pages of %lld groups %lld %lld",
        (unsigned long long)seed, number, problem.pass, problem.dtype, (long long)problem.q_type,
        (long long)problem.k_type, (long long)problem.v_type, problem.causal, problem.d, problem.d_v, problem.features,
        problem.skeleton ? problem.skeleton : "-", problem.splits, (long long)problem.page_keys,
        (long long)problem.k_scale_group, (long long)problem.v_scale_group);
    if (clattn_plan_create(&plan, device.clattn, &problem)) {
        fprintf(stderr, "no plan: %.200s\n%s\n", clattn_error_message(), plan_text);
        wrong += !problem.skeleton;
        return false;
    }
    for (long i = 0; i < calls && wrong < 10; i++) {
        call = (struct call){
            .plan = plan, .problem = &problem, .queue = device.queue, .dice = &dice, .memories = &memories};
        judge(call_run(&call));
        memory_free(&memories);
    }
    clattn_plan_destroy(&plan);
    return true;
}

static int usage(void)
{
    fprintf(stderr, "usage: fuzz_device SEED PLANS|:PLAN CALLS\n       fuzz_device --overrun\n");
    return 2;
}

int main(int argc, char **argv)
{
    const bool overrun = argc == 2 && strcmp(argv[1], "--overrun") == 0;
    if (argc != 4 && !overrun)
        return usage();
    const uint64_t seed = overrun ? 1 : strtoull(argv[1], NULL, 0);
    const bool one = !overrun && argv[2][0] == ':';
    const long plans = overrun ? 4 : strtol(argv[2] + one, NULL, 0), calls = overrun ? 50 : strtol(argv[3], NULL, 0);
    long made = 0;
    test_device_open(&device);
    memories = (struct memories){.context = device.context, .lies = overrun ? 4096 : 0};
    watch_signals();
    for (long i = one ? plans : 0; i < (one ? plans + 1 : plans) && wrong < 10; i++)
        made += run_plan(seed, i, calls);
    test_device_close(&device);
    printf("%ld plans, %ld calls accepted, %ld refused, %ld of them with nothing wrong, %ld faults\n", made, accepted,
           refused, unspoilt, wrong);
    return wrong || !accepted;
}
