/* SPDX-License-Identifier: BSD-2-Clause */
#include "clinfo/clinfo.h"
#include "commands.h"
#include "flow.h"
#include "json_out.h"
#include "opencl_select.h"
#include "options/names.h"
#include "plan_kernels.h"
#include "plan_traffic.h"
#include <inttypes.h>
#include <string.h>

struct values {
    struct option_device device;
    const char *clinfo, *skeleton, *knobs;
    int pass, dtype, k_format, v_format, causal, packing;
    int64_t page_keys, d, d_v, n, n_q, n_kv, heads, kv_heads, splits, b_r, b_c, work_group_size;
    bool json;
};

static const struct option_word passes[] = {{"forward", CLATTN_FORWARD},
                                            {"backward", CLATTN_BACKWARD},
                                            {"accumulate", CLATTN_ACCUMULATE},
                                            {"backward-accumulate", CLATTN_BACKWARD_ACCUMULATE},
                                            {NULL, 0}};

static const struct option_spec options[] = {
    DEVICE("plan and compile for this device (default: the first GPU, else the first device)"),
    TEXT("clinfo", "FILE", clinfo, "plan for every device of a 'clinfo --json' or '--raw' dump; - is stdin"),
    WORD("pass", "NAME", pass, passes,
         "forward (default), backward (gradients); with keys in pieces: accumulate,\n"
         "backward-accumulate"),
    WORD("dtype", "TYPE", dtype, option_dtypes, "fp32 (default), fp16 or bf16"),
    WORD("k-format", "TYPE", k_format, option_formats,
         "how K is stored (default: as dtype): also int8, int4, fp8_e4m3, fp8_e5m2, q8_0, q4_0"),
    WORD("v-format", "TYPE", v_format, option_formats, "how V is stored, likewise"),
    INTEGER("page-keys", page_keys, 1, INT32_MAX, "K and V lie in pages of so many keys"),
    INTEGER("d", d, 1, CLATTN_MAX_LATENT_D, "head dimension of Q and K, 1 to 576 (default 64)"),
    INTEGER("d-v", d_v, 1, CLATTN_MAX_D, "head dimension of V (default: d)"),
    CAUSAL("bottom-right (default), top-left or off"),
    INTEGER("n", n, 1, INT64_MAX, "length of Q, K and V"),
    INTEGER("n-q", n_q, 1, INT64_MAX, "length of Q"),
    INTEGER("n-kv", n_kv, 1, INT64_MAX, "length of K and V"),
    INTEGER("heads", heads, 1, INT64_MAX,
            "heads of Q, those of all batch elements together: with the lengths they say\n"
            "whether keys are split"),
    INTEGER("kv-heads", kv_heads, 1, INT64_MAX, "heads of K and V likewise (default: as many as of Q)"),
    WORD("packing", "WHEN", packing, option_packings,
         "whether query heads that share a head of K and V go together: planned (default),\n"
         "never, always"),
    INTEGER("splits", splits, 1, CLATTN_MAX_SPLITS,
            "split the keys of each call of a forward pass into so many parts; 1: never"),
    SKELETON("skeleton", skeleton, OPTION_FORWARD | OPTION_BACKWARD, "take this kernel, one of"),
    INTEGER("b-r", b_r, 1, 65536, "take this many rows in a query block"),
    INTEGER("b-c", b_c, 1, 65536, "take this many keys in a key block"),
    INTEGER("work-group-size", work_group_size, 1, 65536, "take this many work-items in a work-group"),
    TEXT("knobs", "NAME=N...", knobs,
         "take these constants of the skeleton's own, such as \"micro=8 row_vectors=2\"; needs\n"
         "--skeleton. 'chosen' shows them"),
    FLAG("json", json, "print an array of plans as JSON"),
    END_OF_OPTIONS,
};

const struct command_spec plan_command = {
    .name = "plan",
    .summary = "Show how the block sizes follow from a device's local memory, and which kernel is taken",
    .synopsis = "clattn plan [--device P:D] [--pass NAME] [--dtype TYPE] [--d N] [--d-v N] [--causal[=CORNER]] [--n N] "
                "[--json]\n"
                "clattn plan --clinfo FILE ...",
    .details = "With --device the kernel is compiled; with --clinfo nothing runs, and the answer is the one that the\n"
               "device would give. 'chosen by' says who answered: the problem (a size was given), the tuning file\n"
               "($CLATTN_TUNING_FILE, or clattn/tuning.json where the system keeps settings), the built-in table of\n"
               "measured devices, or the model.",
    .options = options,
};

static struct clattn_problem problem_of(const struct values *values)
{
    return (struct clattn_problem){.pass = (enum clattn_pass)values->pass,
                                   .dtype = (enum clattn_dtype)values->dtype,
                                   .k_type = values->k_format + CLATTN_AS_FP32,
                                   .v_type = values->v_format + CLATTN_AS_FP32,
                                   .features = values->page_keys ? CLATTN_PAGES : 0,
                                   .page_keys = values->page_keys,
                                   .d = (int)values->d,
                                   .d_v = (int)values->d_v,
                                   .causal = (enum clattn_causal)values->causal,
                                   .expected_n_q = values->n_q ? values->n_q : values->n,
                                   .expected_n_kv = values->n_kv ? values->n_kv : values->n,
                                   .expected_heads = values->heads,
                                   .expected_kv_heads = values->kv_heads,
                                   .packing = values->packing,
                                   .splits = (int)values->splits,
                                   .skeleton = values->skeleton,
                                   .b_r = (int)values->b_r,
                                   .b_c = (int)values->b_c,
                                   .work_group_size = (int)values->work_group_size,
                                   .knobs = values->knobs};
}

static int64_t blocks(int64_t length, int block)
{
    return block > 0 ? length / block + (length % block != 0) : 0;
}

static void print_problem(const struct clattn_problem *problem)
{
    flow(stdout, "problem    %s, %s, d = %d, d_v = %d, causal %s", pass_name(problem->pass),
         clattn_dtype_name(problem->dtype), problem->d, problem->d_v ? problem->d_v : problem->d,
         causal_name(problem->causal));
    if (problem->k_type)
        flow(stdout, ", K %s", format_name((int)problem->k_type - CLATTN_AS_FP32));
    if (problem->v_type)
        flow(stdout, ", V %s", format_name((int)problem->v_type - CLATTN_AS_FP32));
    if (problem->page_keys)
        flow(stdout, ", pages of %" PRId64, problem->page_keys);
    if (problem->expected_n_q)
        flow(stdout, ", n_q = %" PRId64, problem->expected_n_q);
    if (problem->expected_n_kv)
        flow(stdout, ", n_kv = %" PRId64, problem->expected_n_kv);
    if (problem->expected_heads)
        flow(stdout, ", heads = %" PRId64, problem->expected_heads);
    flow(stdout, "\n");
}

static void print_paper(const struct clattn_problem *problem, const struct clattn_plan_info *info)
{
    flow(stdout, "M          %" PRIu64 " elements of on-chip memory (%" PRIu64 " bytes)\n", info->m_elements,
         info->local_bytes_limit);
    flow(stdout, "paper      B_c = floor(M / 4d) = %d, B_r = min(B_c, d) = %d", info->paper_b_c, info->paper_b_r);
    if (problem->expected_n_q)
        flow(stdout, ", T_r = %" PRId64, blocks(problem->expected_n_q, info->paper_b_r));
    if (problem->expected_n_kv)
        flow(stdout, ", T_c = %" PRId64, blocks(problem->expected_n_kv, info->paper_b_c));
    flow(stdout, "\n");
}

static void print_plan(const char *title, const struct clattn_problem *problem, const struct clattn_plan_info *info)
{
    flow(stdout, "device     %s\n", title);
    print_problem(problem);
    print_paper(problem, info);
    for (int i = 0; i < info->step_count; i++)
        flow(stdout, "%s  %-12s B_r %4d  B_c %4d  %s\n", i ? "         " : "steps    ", info->steps[i].name,
             info->steps[i].b_r, info->steps[i].b_c, info->steps[i].reason);
    flow(stdout, "chosen     %s, B_r = %d, B_c = %d, %d work-item%s a work-group", info->skeleton, info->b_r, info->b_c,
         info->work_group_size, info->work_group_size == 1 ? "" : "s");
    if (info->t_r)
        flow(stdout, ", T_r = %" PRId64, info->t_r);
    if (info->t_c)
        flow(stdout, ", T_c = %" PRId64, info->t_c);
    if (info->splits > 1)
        flow(stdout, ", keys split into %d", info->splits);
    if (info->knobs[0])
        flow(stdout, ", %s", info->knobs);
    flow(stdout, "\nchosen by  %s\n", plan_source_name(info->source));
    plan_print_kernels(problem->pass, info);
    flow(stdout,
         "memory     %" PRIu64 " of %" PRIu64 " bytes of local memory, about %" PRIu64
         " bytes of private memory (registers, if they suffice) a work-item\n",
         info->local_bytes, info->local_bytes_limit, info->private_bytes);
    plan_print_traffic(problem, info);
    flow(stdout, "constants  %s\n", info->constants);
    if (info->program_key[0])
        flow(stdout, "program    %s\n", info->program_key);
}

static json_t *json_problem(const struct clattn_problem *problem)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:s, s:I, s:I, s:I}", "pass", pass_name(problem->pass), "dtype",
                     clattn_dtype_name(problem->dtype), "d", problem->d, "d_v",
                     problem->d_v ? problem->d_v : problem->d, "causal", causal_name(problem->causal), "n_q",
                     (json_int_t)problem->expected_n_q, "n_kv", (json_int_t)problem->expected_n_kv, "heads",
                     (json_int_t)problem->expected_heads);
}

static json_t *json_planned(const struct clattn_capabilities *capabilities, int platform, int device,
                            const struct clattn_problem *problem, const struct clattn_plan_info *info)
{
    char number[32];
    snprintf(number, sizeof number, "%d:%d", platform, device);
    json_t *described = json_capabilities(capabilities);
    json_object_set_new(described, "device", json_text(number));
    json_t *plan = json_plan(info);
    json_object_set_new(plan, "kernels", plan_json_kernels(problem->pass, info));
    json_object_set_new(plan, "paper_t_r", json_integer(blocks(problem->expected_n_q, info->paper_b_r)));
    json_object_set_new(plan, "paper_t_c", json_integer(blocks(problem->expected_n_kv, info->paper_b_c)));
    json_object_set_new(plan, "traffic", plan_json_traffic(problem, info));
    return json_pack("{s:o, s:o, s:o}", "device", described, "problem", json_problem(problem), "plan", plan);
}

static int check_named(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                       struct failure *failure)
{
    return problem->pass == CLATTN_BACKWARD || problem->pass == CLATTN_BACKWARD_ACCUMULATE
               ? check_backward_skeleton(capabilities, "skeleton", problem->skeleton, failure)
               : check_skeleton(capabilities, problem->skeleton, failure);
}

/* One device of a dump. `failure` is what stderr hears of it. */
static int plan_dumped(struct clinfo_device *item, const clattn_tuning *tuning, const struct clattn_problem *problem,
                       json_t *rows, struct failure *failure)
{
    struct clattn_plan_info info;
    char title[256];
    clattn_capabilities_apply_known(&item->capabilities);
    snprintf(title, sizeof title, "%d:%d %s (%s)", item->platform, item->device, item->capabilities.device_name,
             item->capabilities.platform_name);
    const int known = check_named(&item->capabilities, problem, failure);
    if (known)
        return known;
    const clattn_status code = clattn_tuning_preview(tuning, &item->capabilities, problem, &info);
    if (code)
        return fail_library(failure, title, code);
    if (rows)
        json_array_append_new(rows, json_planned(&item->capabilities, item->platform, item->device, problem, &info));
    else
        print_plan(title, problem, &info);
    return STATUS_OK;
}

/* A device for which nothing fits does not keep the others from being shown. */
static int plan_dump(const struct values *values, const struct clattn_problem *problem, json_t *rows,
                     struct failure *failure)
{
    struct clinfo_devices devices;
    int worst = clinfo_read(values->clinfo, &devices, failure);
    clattn_tuning *tuning = tuning_default(false);
    for (int i = 0; i < devices.count; i++) {
        if (i && !rows)
            flow(stdout, "\n");
        const int status = plan_dumped(&devices.items[i], tuning, problem, rows, failure);
        if (status) {
            fprintf(stderr, "clattn plan: %s\n", failure->text);
            failure->text[0] = '\0'; /* said already */
            worst = status;
        }
    }
    clattn_tuning_destroy(&tuning);
    clinfo_free(&devices);
    return worst;
}

static int plan_session(struct session *session, const struct clattn_problem *problem, json_t *rows,
                        struct failure *failure)
{
    struct clattn_plan_info info;
    clattn_plan *plan = NULL;
    char title[256];
    session_title(session, title, sizeof title);
    clattn_status code = clattn_plan_create(&plan, session->clattn, problem);
    if (!code)
        code = clattn_plan_get_info(plan, &info);
    clattn_plan_destroy(&plan);
    if (code)
        return fail_library(failure, title, code);
    if (rows)
        json_array_append_new(rows,
                              json_planned(session->capabilities, session->platform, session->device, problem, &info));
    else
        print_plan(title, problem, &info);
    return STATUS_OK;
}

static int plan_device(const struct values *values, const struct clattn_problem *problem, json_t *rows,
                       struct failure *failure)
{
    struct session session;
    int status = session_open(&session, &values->device, false, failure);
    if (status)
        return status;
    status = check_named(session.capabilities, problem, failure);
    if (!status)
        status = plan_session(&session, problem, rows, failure);
    session_close(&session);
    return status;
}

int plan_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.k_format = -1, .v_format = -1, .d = 64};
    int status = options_parse(&plan_command, argc, argv, &values, failure);
    if (status)
        return status;
    if (values.clinfo && values.device.given)
        return fail(failure, STATUS_USAGE, "--device and --clinfo: one of them; a dump's devices are all planned for");
    const struct clattn_problem problem = problem_of(&values);
    json_t *rows = values.json ? json_array() : NULL;
    status =
        values.clinfo ? plan_dump(&values, &problem, rows, failure) : plan_device(&values, &problem, rows, failure);
    if (!values.json || (status && !json_array_size(rows))) {
        json_decref(rows);
        return status;
    }
    const int printing = json_print(rows, NULL, failure);
    return status ? status : printing;
}
