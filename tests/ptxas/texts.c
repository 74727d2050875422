/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Writes the texts that the library would hand to NVIDIA's compiler for its matrix kernels, as the planner plans them
 * for devices of several compute capabilities: test_spills.py compiles them. One file a program, DIRECTORY/NAME.cl, and
 * for each a line on stdout: its name, the compute capability, the work-items of a group, 1 if it is to be
 * retargeted, and the bytes of local memory that were planned; 0: it is a smaller kernel beside the one that this was
 * planned for.
 *
 *     kernel_texts DIRECTORY */
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/recipe.h"
#include "plan/retarget.h"
#include "ptxas/write.h"
#include "support/nvidia.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t compute_capability, compute_units;
} devices[] = {{"75", 705, 40}, {"80", 800, 108}, {"86", 806, 84}, {"89", 809, 128}, {"90", 900, 132}};

/* Of a problem without features all kernels of a backward pass that it has; of others those that differ. */
static bool is_written(const struct clattn_problem *problem, int number)
{
    if (number == CLA_ORDER)
        return true;
    return problem->features || problem->mask_mod ? number == CLA_DK_DV : number != CLA_D_BIAS;
}

static int write_typed(const char *directory, size_t n, struct clattn_problem problem)
{
    const struct clattn_capabilities capabilities =
        test_nvidia(devices[n].compute_capability, devices[n].compute_units);
    struct clattn_problem resolved;
    struct clattn_plan_info info;
    struct cla_choice choice;
    struct cla_error error;
    problem.dropout_p = problem.features & CLATTN_DROPOUT ? 0.1f : 0.0f;
    if (cla_problem_resolve(&problem, &resolved, &error) || cla_plan(&capabilities, &resolved, &choice, &info, &error))
        return texts_complain(devices[n].name, &error);
    int failed = 0;
    if (!choice.skeleton->backward) {
        failed += texts_write(directory, devices[n].name, "sm_", &resolved, &choice, CLA_WHOLE);
        return failed + (problem.features || problem.mask_mod
                             ? 0
                             : texts_write(directory, devices[n].name, "sm_", &resolved, &choice, CLA_SPLIT));
    }
    const uint32_t kernels = cla_recipe_kernels(choice.skeleton, &choice.config, &capabilities, &resolved, 1);
    for (int i = 0; i < CLA_MOST_KERNELS; i++)
        if (kernels >> i & 1 && is_written(&resolved, i))
            failed += texts_write(directory, devices[n].name, "sm_", &resolved, &choice, i);
    return failed;
}

/* Where nothing else is said, of fp16. */
static int write_problem(const char *directory, size_t n, struct clattn_problem problem)
{
    problem.dtype = problem.dtype ? problem.dtype : CLATTN_FP16;
    return write_typed(directory, n, problem);
}

/* forward_hopper's ways that no plan takes by itself. */
static int write_unsteady(const char *directory, size_t n, struct clattn_problem problem)
{
    problem.skeleton = "forward_hopper";
    problem.knobs = "tma=0 stale_max=0";
    return write_problem(directory, n, problem);
}

/* The sizes that forward_hopper has for long sequences. */
static int write_long(const char *directory, size_t n, struct clattn_problem problem)
{
    problem.expected_n_q = problem.expected_n_kv = 16384;
    problem.causal = problem.d > 64 ? CLATTN_CAUSAL_BOTTOM_RIGHT : CLATTN_FULL;
    return write_problem(directory, n, problem);
}

/* Its four consumers with dropout, which only the tuner, or who asks for them, takes. */
static int write_four_consumers(const char *directory, size_t n, struct clattn_problem problem)
{
    problem.b_r = 256;
    problem.b_c = 64;
    problem.causal = CLATTN_FULL;
    problem.features = CLATTN_DROPOUT;
    return write_problem(directory, n, problem);
}

/* Where it tries the bounds of the tile before, and d = 64 plain, where it does not. 8.9 has the registers and the
 * local memory of 8.6. */
static int write_full_matrix(const char *directory, size_t n, int d)
{
    static const unsigned features[] = {0, CLATTN_SOFTCAP, CLATTN_DROPOUT};
    const size_t count = devices[n].compute_capability == 809 ? 1 : sizeof features / sizeof *features;
    int failed = 0;
    for (size_t i = 0; i < count; i++)
        failed += write_problem(directory, n,
                                (struct clattn_problem){.d = d, .features = features[i], .skeleton = "forward_matrix"});
    return failed;
}

static const char score_mod[] =
    "float score_mod(float s, int b, int h, int i, int j, __global const float *data) { return 0.5f * s; }";
static const char score_mod_grad[] =
    "float score_mod_grad(float s, int b, int h, int i, int j, __global const float *data) { return 0.5f; }";
static const char mask_mod[] =
    "bool mask_mod(int b, int h, int i, int j, __global const float *data) { return (j & 7) != 0; }";

/* What hides pairs otherwise, and the user's functions. */
static int write_hidden(const char *directory, size_t n, struct clattn_problem problem)
{
    problem.features = CLATTN_WINDOW;
    int failed = write_problem(directory, n, problem);
    problem.features = CLATTN_BLOCK_MASK;
    problem.block_q = problem.block_kv = 64;
    failed += write_problem(directory, n, problem);
    problem.block_q = problem.block_kv = 128;
    failed += problem.pass == CLATTN_FORWARD ? write_problem(directory, n, problem) : 0;
    problem.block_q = problem.block_kv = 64;
    problem.expected_density = 1; /* tiles meet several blocks */
    failed += problem.pass == CLATTN_FORWARD ? write_problem(directory, n, problem) : 0;
    problem.expected_density = 0;
    problem.unordered = 1; /* consumers pass over tiles */
    failed += problem.pass == CLATTN_BACKWARD ? write_problem(directory, n, problem) : 0;
    problem.features = problem.unordered = 0;
    problem.block_q = problem.block_kv = 0;
    problem.score_mod = score_mod;
    problem.score_mod_grad = score_mod_grad;
    problem.mask_mod = mask_mod;
    return failed + write_problem(directory, n, problem);
}

/* Several features at once, drawn by a generator of its own so that they are the same ones each time (Knuth's 64-bit
 * constants); the last has all. */
static int write_many(const char *directory, size_t n)
{
    static const int blocks[][2] = {{64, 64}, {32, 64}, {128, 64}, {256, 128}};
    enum { FORWARD = 8, DRAWN = 11, ALL = 1023 };
    uint64_t state = 18;
    int failed = 0;
    for (int i = 0; i <= DRAWN; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const unsigned drawn = i % (FORWARD - 1) && i < DRAWN ? (unsigned)(state >> 40) : UINT32_MAX;
        const bool masked = drawn & CLATTN_BLOCK_MASK, modified = drawn >> 10 & 1;
        const struct clattn_problem problem = {.d = i % 4 == 3 ? 128 : 64,
                                               .causal = (enum clattn_causal)(drawn >> 11 & 1),
                                               .features = drawn & ALL,
                                               .block_q = masked ? blocks[i % 4][0] : 0,
                                               .block_kv = masked ? blocks[i % 4][1] : 0,
                                               .score_mod = modified ? score_mod : NULL,
                                               .score_mod_grad = modified && i >= FORWARD ? score_mod_grad : NULL,
                                               .mask_mod = modified ? mask_mod : NULL,
                                               .pass = i < FORWARD ? CLATTN_FORWARD : CLATTN_BACKWARD,
                                               .skeleton = i < FORWARD ? "forward_hopper" : "backward_hopper"};
        failed += write_problem(directory, n, problem);
    }
    return failed;
}

/* Its work-groups of 64 keys, which are for masks in short blocks, and with all else that it computes of each pair; and
 * a mask in blocks of 128. */
static int write_few_keys(const char *directory, size_t n, struct clattn_problem problem)
{
    static const int blocks[] = {64, 16};
    problem.b_c = 64;
    problem.knobs = NULL;
    int failed = write_problem(directory, n, problem);
    problem.features |= CLATTN_BLOCK_MASK;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        problem.block_q = problem.block_kv = blocks[i];
        failed += write_problem(directory, n, problem);
    }
    problem.block_q = problem.block_kv = problem.b_c = 128;
    return failed + (problem.features == CLATTN_BLOCK_MASK ? write_problem(directory, n, problem) : 0);
}

/* In both of its shapes, where local memory suffices for them; with what it computes of each pair for 8.0 and 9.0. */
static int write_fused(const char *directory, size_t n, struct clattn_problem problem)
{
    const uint32_t capability = devices[n].compute_capability;
    if (problem.features && capability != 800 && capability != 900)
        return 0;
    problem.skeleton = "backward_fused";
    problem.unordered = 1;
    if (capability < 800 || (problem.d > 64 && capability != 800 && capability != 900))
        return 0;
    const int failed = write_problem(directory, n, problem);
    problem.knobs = problem.features & CLATTN_DROPOUT ? "own_keys=1 dropout_once=1" : "own_keys=1";
    return failed + (problem.d > 64 && capability == 900 ? write_problem(directory, n, problem) : 0) +
           (capability == 800 || capability == 900 ? write_few_keys(directory, n, problem) : 0);
}

/* fp32, forward and backward; with dQ summed in any order where a kernel does that, and so with dropout, too. */
static int write_fp32(const char *directory, size_t n, int d, const char *forward, const char *backward)
{
    struct clattn_problem problem = {.d = d, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .skeleton = forward};
    const int failed = write_typed(directory, n, problem);
    problem.pass = CLATTN_BACKWARD;
    problem.skeleton = backward;
    const int ordered = write_typed(directory, n, problem);
    if (strcmp(backward, "backward_matrix") != 0)
        return failed + ordered;
    problem.unordered = 1;
    const int plain = write_typed(directory, n, problem);
    problem.features = CLATTN_DROPOUT;
    return failed + ordered + plain + write_typed(directory, n, problem);
}

/* One row against many keys, by groups of heads and without. */
static int write_decode(const char *directory, size_t n, int d)
{
    struct clattn_problem problem = {.d = d,
                                     .expected_n_q = 1,
                                     .expected_n_kv = 8192,
                                     .expected_heads = 32,
                                     .expected_kv_heads = 8,
                                     .skeleton = "forward_matrix"};
    const int failed = write_problem(directory, n, problem);
    problem.expected_kv_heads = 32;
    problem.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
    return failed + write_problem(directory, n, problem);
}

int main(int argc, char **argv)
{
    static const unsigned features[] = {CLATTN_SOFTCAP, CLATTN_ALIBI, CLATTN_BIAS, CLATTN_DROPOUT};
    int failed = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: kernel_texts DIRECTORY\n");
        return 2;
    }
    for (size_t n = 0; n < sizeof devices / sizeof *devices; n++)
        for (int d = 64; d <= 256; d *= 2) {
            const bool hopper = devices[n].compute_capability == 900;
            const struct clattn_problem full = {.d = d, .skeleton = "forward_simt"};
            failed += hopper && d < 256
                          ? write_typed(argv[1], n, full) + write_fp32(argv[1], n, d, full.skeleton, "backward_simt")
                          : 0;
            failed += (hopper || devices[n].compute_capability == 800) && d < 256
                          ? write_fp32(argv[1], n, d, "forward_matrix", "backward_matrix")
                          : 0;
            struct clattn_problem forward = {.d = d, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT};
            struct clattn_problem backward = {.d = d, .causal = CLATTN_CAUSAL_BOTTOM_RIGHT, .pass = CLATTN_BACKWARD};
            if (d == 256 && !hopper)
                continue;
            failed += write_problem(argv[1], n, forward);
            failed += hopper && d < 256 ? write_long(argv[1], n, forward) : 0;
            failed += hopper && d == 64 ? write_four_consumers(argv[1], n, forward) : 0;
            if (d == 256) {
                failed += write_problem(argv[1], n, backward);
                continue;
            }
            forward.skeleton = "forward_matrix";
            failed += hopper ? write_problem(argv[1], n, forward) : 0;
            failed += devices[n].compute_capability >= 800 ? write_full_matrix(argv[1], n, d) : 0;
            failed += hopper ? write_problem(argv[1], n, backward) : 0;
            backward.skeleton = "backward_matrix";
            failed += write_problem(argv[1], n, backward);
            failed += write_fused(argv[1], n, backward);
            forward.skeleton = NULL;
            failed += hopper ? write_unsteady(argv[1], n, forward) : 0;
            for (size_t i = 0; hopper && i < sizeof features / sizeof *features; i++) {
                forward.causal = CLATTN_FULL;
                forward.features = backward.features = features[i];
                failed += write_problem(argv[1], n, forward) + write_unsteady(argv[1], n, forward);
                backward.causal = CLATTN_FULL;
                for (size_t skeleton = 0; skeleton < (features[i] & (CLATTN_ALIBI | CLATTN_BIAS) ? 1 : 2); skeleton++) {
                    backward.skeleton = skeleton ? "backward_matrix" : "backward_hopper";
                    failed += write_problem(argv[1], n, backward);
                }
            }
            if (hopper) {
                forward.causal = backward.causal = CLATTN_FULL;
                forward.features = backward.features = 0;
                backward.skeleton = "backward_hopper";
                failed += write_hidden(argv[1], n, forward) + write_hidden(argv[1], n, backward);
            }
            for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
                backward.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
                backward.features = features[i];
                failed += write_fused(argv[1], n, backward);
            }
            for (size_t i = 0; hopper && i < sizeof features / sizeof *features; i++) {
                forward.causal = CLATTN_CAUSAL_BOTTOM_RIGHT;
                forward.features = features[i];
                failed += write_problem(argv[1], n, forward);
            }
            forward.features = CLATTN_ALIBI;
            forward.dtype = CLATTN_BF16;
            failed += hopper ? write_problem(argv[1], n, forward) : 0;
        }
    for (size_t n = 0; n < sizeof devices / sizeof *devices; n++)
        for (int d = 64; d <= 128; d *= 2)
            failed += write_decode(argv[1], n, d);
    for (size_t n = 0; n < sizeof devices / sizeof *devices; n++)
        failed += devices[n].compute_capability == 900 ? write_many(argv[1], n) : 0;
    return failed != 0;
}
