/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The texts that kernels are compiled from: the compiler has nothing to say about any of them, and the user's functions
 * may have whatever names they like. */
#include "support/backward.h"
#include "support/cases.h"
#include "support/compare.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test_device device;

/* Everything that the kernels define and do not begin with clattn, as functions, as types, as macros. The score is that
 * of score_mod_text. */
static const char clashing_score_mod[] =
    "#define UNROLL nonsense\n"
    "#define TX 3\n"
    "# define row 7\n"
    "  #define SIMT_MOD(a, b) ((a) + (b))\n"
    "#define view i\n"
    "typedef struct { float x; } vec;\n"
    "typedef float simt_rows;\n"
    "typedef float unit_accumulator;\n"
    "typedef float softmax_state;\n"
    "float transpose(float x) { return x * 0.875f; }\n"
    "float simt_load_block(float x) { return 0.125f * sin(x); }\n"
    "float matrix_fill(float x) { return 0.015625f * x; }\n"
    "float range_end(simt_rows x) { return x; }\n"
    "float max_vec(vec x) { return x.x; }\n"
    "float score_bias(__global const float *data, int b, int h) { return data[b * TX + b * 4 + h]; }\n"
    "float score_mod(float score, int b, int h, int i, int j, __global const float *data)\n"
    "{\n"
    "    const vec x = {transpose(score)};\n"
    "    return max_vec(x) + simt_load_block(range_end(score)) + matrix_fill((float)(view - j)) + score_bias(data, b, "
    "h);\n"
    "}\n";
static const char clashing_score_mod_grad[] =
    "#define lane 5\n"
    "float zip_low(float x) { return 0.125f * x; }\n"
    "float score_mod_grad(float score, int b, int h, int i, int j, __global const float *data)\n"
    "{\n"
    "    return 0.875f + zip_low(cos(score));\n"
    "}\n";
static const char clashing_mask_mod[] =
    "#define keys 7\n"
    "int load_rows(int i) { return i * keys; }\n"
    "int matrix_scores(int j) { return j * 3; }\n"
    "bool mask_mod(int b, int h, int i, int j, __global const float *data)\n"
    "{\n"
    "    return ((load_rows(i) + matrix_scores(j) + h + b) & keys) != 0 && data[j & 31] < 1.0f;\n"
    "}\n";

static struct forward_case with_clashes(const char *skeleton, enum clattn_pass pass)
{
    struct forward_case forward = {.problem = {.pass = pass,
                                               .dtype = CLATTN_FP16,
                                               .d = 32,
                                               .causal = CLATTN_CAUSAL_BOTTOM_RIGHT,
                                               .skeleton = skeleton},
                                   .shape = {.batch = 2, .heads = 2, .n_q = 17, .n_kv = 40},
                                   .score = score_typical(),
                                   .seed = 61};
    case_set_features(&forward, CLATTN_DROPOUT | CASE_SCORE_MOD | CASE_MASK_MOD);
    forward.problem.score_mod = clashing_score_mod;
    forward.problem.score_mod_grad = clashing_score_mod_grad;
    forward.problem.mask_mod = clashing_mask_mod;
    return forward;
}

/* Names meet where a program is built. What comes out is compared where the skeleton is at home, since PoCL takes half
 * a minute to make the others' kernels. */
static bool builds(const struct cla_skeleton *skeleton, enum clattn_pass pass)
{
    const struct forward_case forward = with_clashes(skeleton->name, pass);
    clattn_plan *plan = NULL;
    if (!test_serves(&device, &forward.problem))
        return true;
    const bool built = test_succeeded(clattn_plan_create(&plan, device.clattn, &forward.problem), "clattn_plan_create");
    clattn_plan_destroy(&plan);
    if (!built || !test_takes(&device, skeleton, 1, 2))
        return built;
    return pass == CLATTN_BACKWARD ? backward_check(&device, &forward, BACKWARD_ALL) : forward_check(&device, &forward);
}

static void users_names_are_free(void **state)
{
    (void)state;
    int failures = 0;
    for (const struct cla_skeleton *const *skeleton = test_skeletons(); *skeleton; skeleton++)
        failures += !builds(*skeleton, CLATTN_FORWARD);
    for (const struct cla_skeleton *const *skeleton = test_backward_skeletons(); *skeleton; skeleton++)
        failures += !builds(*skeleton, CLATTN_BACKWARD);
    assert_int_equal(failures, 0);
}

/* What `text`, as score_mod, is refused with. */
static void assert_refused(const char *text, clattn_status status, const char *says)
{
    const struct clattn_problem problem = {.d = 32, .score_mod = text};
    clattn_plan *plan = NULL;
    assert_int_equal(clattn_plan_create(&plan, device.clattn, &problem), status);
    if (!strstr(clattn_error_message(), says))
        fail_msg("no %s in %s", says, clattn_error_message());
}

#define SCORE_MOD "float score_mod(float score, int b, int h, int i, int j, __global const float *data)\n"

static void a_reserved_name_is_refused(void **state)
{
    (void)state;
    assert_refused("float clattn_load(float x) { return x; }\n" SCORE_MOD "{\n    return clattn_load(score);\n}\n",
                   CLATTN_INVALID_ARGUMENT, "score_mod:1: \"clattn_load\"");
    assert_refused(SCORE_MOD "{ return score; }\n#undef CLATTN_D\n#define CLATTN_D 512\n", CLATTN_INVALID_ARGUMENT,
                   "score_mod:3: \"CLATTN_D\"");
}

static void a_wrong_function_is_an_error_of_the_text(void **state)
{
    (void)state;
    assert_refused("/* too few */\nfloat score_mod(float score, int b, int h, int i, __global const float *data)\n"
                   "{ return score; }\n",
                   CLATTN_BUILD_FAILED, "score_mod:2");
    assert_refused("\n\n\nfloat score_mod(int score, int b, int h, int i, int j, __global const float *data)\n"
                   "{ return score; }\n",
                   CLATTN_BUILD_FAILED, "score_mod:4");
    assert_refused("#define float int\n" SCORE_MOD "{ return score; }\n", CLATTN_BUILD_FAILED, "score_mod:2");
}

/* Macros that a text defines, or undefines, or looks for, are nothing to the kernels behind it. */
static void macros_of_a_text_end_with_it(void **state)
{
    (void)state;
    static const char text[] =
        "\xef\xbb\xbf#ifndef INFINITY\n#define INFINITY 1e30f\n#endif\n"
        "#undef NAN\n#undef M_LOG2E_F\n#define M_LOG2E_F 3\n#define CL\\\nK_LOCAL_MEM_FENCE 7\n"
        "#define exp(x) 0.0f\n#define fmax(x, y) 5.0f\n#define __global __local\n#undef __global\n"
        "static " SCORE_MOD "{ return 0.875f * score; }";
    struct forward_case forward = {.problem = {.d = 32, .score_mod = text},
                                   .shape = {.batch = 1, .heads = 2, .n_q = 17, .n_kv = 40},
                                   .score = score_typical(),
                                   .seed = 63};
    struct forward_arrays with, without;
    assert_true(forward_arrays_make(&forward, &with));
    assert_true(forward_run(&device, NULL, &forward, &with));
    forward.problem.score_mod = SCORE_MOD "{ return 0.875f * score; }";
    assert_true(forward_arrays_make(&forward, &without));
    assert_true(forward_run(&device, NULL, &forward, &without));
    assert_true(compare_close("o", with.o, without.o, 2 * 17 * 32, 1e-5));
    forward_arrays_free(&with);
    forward_arrays_free(&without);
}

/* What the compiler says */

struct listener {
    int texts, remarks;
};

/* Builds a text once more, to hear what the library does not pass on. Intel's compiler for CPUs also says what it has
 * done. */
static void hear(struct listener *listener, const char *options, const char *text, const char *name)
{
    static char log[1 << 14];
    cl_int code = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(device.context, 1, &text, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(clBuildProgram(program, 1, &device.device, options, NULL, NULL), CL_SUCCESS);
    log[0] = 0;
    clGetProgramBuildInfo(program, device.device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    clReleaseProgram(program);
    listener->texts++;
    if (strstr(log, "warning")) {
        listener->remarks++;
        fprintf(stderr, "%s: %s\n", name, log);
    }
}

/* "kernel NAME, key KEY, options OPTIONS:\nTEXT" */
static void listen(void *user, enum clattn_log_level level, const char *said)
{
    const char *options = strstr(said, ", options "), *end = options ? strstr(options, ":\n") : NULL;
    char name[128], with[128];
    if (level != CLATTN_LOG_DEBUG || strncmp(said, "kernel ", 7) != 0 || !end)
        return;
    snprintf(name, sizeof name, "%.*s", (int)(options - said), said);
    snprintf(with, sizeof with, "%.*s -cl-opt-disable", (int)(end - options - 10), options + 10);
    hear(user, with, end + 2, name);
}

static void compile_all(clattn_context *context, const struct clattn_problem *problem)
{
    clattn_plan *plan = NULL;
    if (!test_serves(&device, problem))
        return;
    assert_true(test_succeeded(clattn_plan_create(&plan, context, problem), "clattn_plan_create"));
    clattn_plan_destroy(&plan);
}

/* Bare, and with everything; NVIDIA's compiler reports each kernel's resources there, so its log is not empty. */
static void compilers_have_nothing_to_say(void **state)
{
    (void)state;
    if (clattn_context_capabilities(device.clattn)->nv_compute_capability)
        skip();
    const unsigned everything = (1 << CASE_FEATURES) - 1;
    static const enum clattn_pass passes[] = {CLATTN_FORWARD, CLATTN_ACCUMULATE, CLATTN_BACKWARD};
    struct listener listener = {0};
    const struct clattn_context_params params = {.context = device.context,
                                                 .device = device.device,
                                                 .cache_directory = "",
                                                 .log = {listen, &listener, CLATTN_LOG_DEBUG}};
    clattn_context *context = NULL;
    assert_true(test_succeeded(clattn_context_create(&context, &params), "clattn_context_create"));
    for (int i = 0; i < 3; i++)
        for (const struct cla_skeleton *const *skeleton = passes[i] == CLATTN_BACKWARD ? test_backward_skeletons()
                                                                                       : test_skeletons();
             *skeleton; skeleton++)
            for (int with = 0; with < 2; with++) {
                struct forward_case forward = {.problem = {.pass = passes[i],
                                                           .dtype = with ? CLATTN_FP16 : CLATTN_BF16,
                                                           .d = with ? 40 : 32,
                                                           .d_v = 24,
                                                           .causal = (enum clattn_causal)with,
                                                           .skeleton = (*skeleton)->name}};
                case_set_features(&forward, with ? everything : 0);
                compile_all(context, &forward.problem);
            }
    clattn_context_destroy(&context);
    print_message("%d texts\n", listener.texts);
    assert_true(listener.texts > 12);
    assert_int_equal(listener.remarks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_names_are_free),
        cmocka_unit_test(a_reserved_name_is_refused),
        cmocka_unit_test(a_wrong_function_is_an_error_of_the_text),
        cmocka_unit_test(macros_of_a_text_end_with_it),
        cmocka_unit_test(compilers_have_nothing_to_say),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
