/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/probe.h"
#include "device/binary_cache.h"
#include "device/build.h"
#include "device/clcall.h"
#include "device/context.h"
#include "device/os.h"
#include "device/processor.h"
#include "device/query.h"
#include "device/report.h"
#include "plan/half.h"
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include "plan/source.h"
#include "plan/ways.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layout of `data` in cl/probe.cl, in words. */
enum { FLOATS = 0, HALVES = 16, LOADED = 24, STORED = 56, WRONG = 72, MAX_GROUP = 64, WORDS = WRONG + MAX_GROUP };
enum { VALUES = 16, SALT = 0x5bd1e995 };

/* Halves to load: zeros, the smallest and largest subnormals, the smallest and largest normals, infinities, some
 * others. */
static const uint16_t halves[VALUES] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x3c00,
                                        0xbc00, 0x3555, 0x4248, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x0155};

/* Floats to store: exact ones, ties to even both ways, the edges of overflow (65520) and of underflow (2^-25). */
static const float floats[VALUES] = {0.0f,      -0.0f,      1.0f,         1.00048828125f, 1.00146484375f, 0.1f,
                                     -3.14159f, 65504.0f,   65519.0f,     65520.0f,       -65520.0f,      0x1p-24f,
                                     0x1p-25f,  0x1.8p-25f, 0x1.ffcp-15f, 1e-8f};

/* The sizes, in KiB, that NVIDIA's generations give to static arrays (Hopper and Blackwell, A100, later Ampere and Ada,
 * Volta, Turing): the assembler's limit less 1 KiB, which an array may lose to its alignment. The driver reports 48.
 * Other vendors' drivers are not asked for more than they report: none is known to give it, and some would hang. */
static const uint32_t nvidia_kilobytes[] = {226, 162, 98, 95, 63};

enum { NVIDIA = 0x10de, MAX_CANDIDATES = 8, HOPPER = 900, HOPPER_GROUP = 128 };

/* Units of products that are tried by a kernel of their own. */
struct unit {
    const char *const *files;
    const char *defines; /* constants that the files above the kernel ask for */
    uint32_t group;      /* items of its work-group */
};

/* fp16, compute capability 9.0. */
static const char *const hopper_files[] = {"probe_hopper.cl", NULL};
static const struct unit hopper = {
    hopper_files, "#define CLATTN_DTYPE 1\n#define CLATTN_FEATURES 0\n#define CLATTN_COMPUTE_CAPABILITY 90\n",
    HOPPER_GROUP};

/* bf16, as the planner has the register tile. */
#define CPU_UNIT                                                                                                       \
    "#define CLATTN_DTYPE 2\n#define CLATTN_FEATURES 0\n#define CLATTN_CAUSAL 0\n#define CLATTN_STATE 0\n"             \
    "#define CLATTN_VECTOR_WIDTH 16\n#define CLATTN_ROW_VECTORS 2\n#define CLATTN_D 64\n#define CLATTN_D_V 64\n"
static const char *const cpu_dot_files[] = {"probe_dot.cl", NULL};
static const struct unit cpu_dot = {cpu_dot_files, CPU_UNIT "#define CLATTN_DOT 1\n#define CLATTN_MICRO 8\n", 1};
static const struct unit cpu_amx = {cpu_dot_files, CPU_UNIT "#define CLATTN_DOT 3\n#define CLATTN_MICRO 32\n", 1};

/* One attempt: what is tried, and how it went. */
struct attempt {
    uint32_t local_bytes;
    bool half;
    const struct unit *unit; /* its products instead, where not NULL */
    uint32_t group;

    bool accepted;
    bool half_right;
    bool out_of_memory; /* refused for want of memory, which says little about the device */
    size_t multiple;    /* CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE; 0: not told */
};

/* The objects of one attempt. They live in a context apart: on some drivers a kernel that faults takes its context with
 * it. */
struct bench {
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer;
    cl_program program;
    cl_kernel kernel;
};

static void bench_finish(struct bench *bench)
{
    cla_cl_release_kernel(bench->kernel);
    cla_cl_release_program(bench->program);
    cla_cl_release_buffer(bench->buffer);
    cla_cl_release_queue(bench->queue);
    cla_cl_release_context(bench->context);
}

static clattn_status bench_init(struct bench *bench, cl_device_id device, struct cla_error *error)
{
    clattn_status status = cla_cl_context_for_device(device, &bench->context, error);
    if (!status)
        status = cla_cl_queue(bench->context, device, 0, &bench->queue, error);
    if (!status)
        status = cla_cl_buffer(bench->context, CL_MEM_READ_WRITE, WORDS * sizeof(uint32_t), &bench->buffer, error);
    return status;
}

static clattn_status bench_build(struct bench *bench, cl_device_id device, const struct attempt *attempt,
                                 struct cla_error *error)
{
    static const char *const general[] = {"probe.cl", NULL};
    char defines[256];
    snprintf(defines, sizeof defines,
             "#define CLATTN_PROBE_GROUP %" PRIu32 "\n#define CLATTN_PROBE_LOCAL_BYTES %" PRIu32
             "\n#define CLATTN_PROBE_HALF %d\n",
             attempt->group, attempt->local_bytes, attempt->half);
    struct cla_text text = {0};
    clattn_status status = cla_source_assemble(attempt->unit ? attempt->unit->defines : defines,
                                               attempt->unit ? attempt->unit->files : general, &text, error);
    if (!status)
        status = cla_build_text(bench->context, device, text.data, CLA_BUILD_OPTIONS, &bench->program, error);
    if (!status)
        status = cla_cl_kernel(bench->program, "clattn_probe", &bench->kernel, error);
    cla_text_free(&text);
    return status;
}

static clattn_status bench_run(const struct bench *bench, uint32_t group, uint32_t data[WORDS], struct cla_error *error)
{
    const cl_uint salt = SALT;
    const size_t bytes = WORDS * sizeof data[0];
    clattn_status status = cla_cl_set_argument(bench->kernel, 0, sizeof bench->buffer, &bench->buffer, error);
    if (!status)
        status = cla_cl_set_argument(bench->kernel, 1, sizeof salt, &salt, error);
    if (!status)
        status = cla_cl_enqueue_write(bench->queue, bench->buffer, 0, bytes, data, 0, NULL, NULL, error);
    if (!status)
        status = cla_cl_enqueue_kernel(bench->queue, bench->kernel, group, group, 0, NULL, NULL, error);
    if (!status)
        status = cla_cl_enqueue_read(bench->queue, bench->buffer, 0, bytes, data, 0, NULL, NULL, error);
    /* Also after a failure: the driver must be done with `data`. */
    struct cla_error late;
    const clattn_status finished = cla_cl_finish(bench->queue, &late);
    if (!status && finished)
        *error = late;
    return status ? status : finished;
}

static void fill_data(uint32_t data[WORDS])
{
    memset(data, 0xff, WORDS * sizeof data[0]);
    memcpy(data + FLOATS, floats, sizeof floats);
    memcpy(data + HALVES, halves, sizeof halves);
}

static bool array_right(const uint32_t data[WORDS], uint32_t group)
{
    for (uint32_t i = 0; i < group && i < MAX_GROUP; i++) {
        if (data[WRONG + i] != 0)
            return false;
    }
    return true;
}

static bool halves_right(const uint32_t data[WORDS])
{
    float loaded[2 * VALUES];
    uint16_t stored[2 * VALUES];
    memcpy(loaded, data + LOADED, sizeof loaded);
    memcpy(stored, data + STORED, sizeof stored);
    for (int i = 0; i < 2 * VALUES; i++) {
        const float expected = cla_half_to_float(halves[i % VALUES]);
        if (memcmp(&loaded[i], &expected, sizeof expected) != 0)
            return false;
        if (stored[i] != cla_half_from_float(floats[i % VALUES]))
            return false;
    }
    return true;
}

/* An error is only what has nothing to do with the kernel; what the device does with the kernel is an answer. */
static clattn_status try_one(const struct clattn_context *context, struct attempt *attempt, struct cla_error *error)
{
    uint32_t data[WORDS];
    struct bench bench = {0};
    struct cla_error refusal;
    clattn_status status = bench_init(&bench, context->device, error);
    if (status)
        goto done;
    fill_data(data);
    clattn_status answer = bench_build(&bench, context->device, attempt, &refusal);
    if (!answer)
        answer = bench_run(&bench, attempt->group, data, &refusal);
    if (!answer && !array_right(data, attempt->group))
        answer = cla_fail(&refusal, CL_INVALID_VALUE, "the __local array did not keep its values");
    attempt->accepted = !answer;
    attempt->half_right = !answer && attempt->half && halves_right(data);
    attempt->out_of_memory = answer == CL_OUT_OF_HOST_MEMORY || answer == CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (answer)
        cla_say(&context->log, CLATTN_LOG_DEBUG, "probe: %" PRIu32 " bytes of local memory, half %d: %s",
                attempt->local_bytes, attempt->half, refusal.text);
    else if (cla_cl_kernel_work_group_info(bench.kernel, context->device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
                                           sizeof attempt->multiple, &attempt->multiple, &refusal))
        attempt->multiple = 0;
done:
    bench_finish(&bench);
    return status;
}

/* Sizes to try, the largest first; the last is no array at all. */
static int list_candidates(const struct clattn_capabilities *capabilities, uint32_t candidates[MAX_CANDIDATES])
{
    const uint64_t most = UINT64_C(1) << 30;
    const uint64_t said = capabilities->local_memory_bytes < most ? capabilities->local_memory_bytes : most;
    const uint32_t reported = (uint32_t)said / 4 * 4;
    int count = 0;
    if (capabilities->vendor_id == NVIDIA && capabilities->local_memory_type == CLATTN_LOCAL_MEMORY_LOCAL) {
        for (size_t i = 0; i < sizeof nvidia_kilobytes / sizeof nvidia_kilobytes[0]; i++) {
            if (nvidia_kilobytes[i] * 1024 > reported)
                candidates[count++] = nvidia_kilobytes[i] * 1024;
        }
    }
    if (reported)
        candidates[count++] = reported;
    if (reported > 2048)
        candidates[count++] = reported - 1024; /* where the driver keeps some for itself */
    candidates[count++] = 0;
    return count;
}

/* What the probe is for, as the disk cache keeps it. */
struct answer {
    uint64_t static_local_bytes;
    bool half_loads, wgmma, cpu_dot, cpu_amx, matrix;
    uint32_t multiple;
};

static clattn_status ask_unit(const struct clattn_context *context, const struct unit *unit, bool *there, bool *certain,
                              struct cla_error *error)
{
    struct attempt attempt = {.unit = unit, .group = unit->group};
    const clattn_status status = try_one(context, &attempt, error);
    *there = attempt.accepted;
    *certain = *certain && !attempt.out_of_memory;
    return status;
}

/* Whether the device is a CPU that runs in this process, on this processor, and not one at the other end of a network:
 * PoCL's, by its kinds of device, and all of Intel's. */
static bool is_this_processor(const struct clattn_capabilities *capabilities)
{
    static const struct {
        const char *platform, *device; /* the beginnings of their names */
    } local[] = {{"Portable Computing Language", "pthread"},
                 {"Portable Computing Language", "basic"},
                 {"Portable Computing Language", "cpu"},
                 {"Intel(R) OpenCL", ""}};
    bool found = false;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        found = found || (strncmp(capabilities->platform_name, local[i].platform, strlen(local[i].platform)) == 0 &&
                          strncmp(capabilities->device_name, local[i].device, strlen(local[i].device)) == 0);
    return found && capabilities->type == CLATTN_DEVICE_CPU;
}

/* Whether this process may try the processor's AMX: only then is a kernel with its instructions ever run. */
static bool may_try_amx(const struct clattn_capabilities *capabilities)
{
    return is_this_processor(capabilities) && cla_processor_has_amx_bf16() && !cla_os_disables(CLA_WAY_BF16_TILES) &&
           cla_os_allows_tiles();
}

/* A processor with AMX retires fewer operations by AVX512-BF16 than by multiply-adds of floats: 0.8 to 1.0 TFLOP/s
 * beside 1.8 to 1.9, 16 cores of a Xeon. */
static bool may_try_dot(const struct clattn_capabilities *capabilities)
{
    return is_this_processor(capabilities) && cla_processor_has_avx512_bf16() && !cla_processor_has_amx_bf16();
}

/* A matrix unit that hardware has not run yet: a tile of each type that it takes. */
static clattn_status ask_matrix(const struct clattn_context *context, bool *right, bool *certain,
                                struct cla_error *error)
{
    static const enum clattn_dtype types[] = {CLATTN_FP16, CLATTN_BF16};
    const struct clattn_capabilities *capabilities = &context->capabilities;
    const struct cla_matrix_unit *matrix = cla_matrix_unit_of(capabilities, CLATTN_FP16);
    clattn_status status = CLATTN_SUCCESS;
    *right = matrix && matrix->trust == CLA_UNIT_PROBED;
    for (size_t i = 0; i < sizeof types / sizeof *types && !status && *right; i++) {
        struct cla_text defines = {0};
        cla_text_printf(&defines, "#define CLATTN_DTYPE %d\n#define CLATTN_FEATURES 0\n", (int)types[i]);
        cla_matrix_unit_define(matrix, cla_matrix_level(matrix, capabilities), &defines);
        const struct unit unit = {
            .files = matrix->files[CLA_UNIT_PROBE], .defines = defines.data, .group = (uint32_t)matrix->lanes};
        if (defines.failed)
            status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the text of a probe");
        else if (matrix->takes(capabilities, types[i]))
            status = ask_unit(context, &unit, right, certain, error);
        cla_text_free(&defines);
    }
    return status;
}

/* Units of products, where they may be: Hopper's by a kernel that only runs if its PTX can be retargeted. */
static clattn_status ask_units(const struct clattn_context *context, struct answer *answer, bool *certain,
                               struct cla_error *error)
{
    const struct clattn_capabilities *capabilities = &context->capabilities;
    if (capabilities->vendor_id == NVIDIA && capabilities->nv_compute_capability == HOPPER)
        return ask_unit(context, &hopper, &answer->wgmma, certain, error);
    if (may_try_amx(capabilities))
        return ask_unit(context, &cpu_amx, &answer->cpu_amx, certain, error);
    if (may_try_dot(capabilities))
        return ask_unit(context, &cpu_dot, &answer->cpu_dot, certain, error);
    return ask_matrix(context, &answer->matrix, certain, error);
}

/* Tries until one is accepted. A compiler that refuses the half functions altogether gets a second round without. */
static clattn_status ask(const struct clattn_context *context, struct answer *answer, bool *certain,
                         struct cla_error *error)
{
    uint32_t candidates[MAX_CANDIDATES];
    const struct clattn_capabilities *capabilities = &context->capabilities;
    const int count = list_candidates(capabilities, candidates);
    uint32_t group = MAX_GROUP;
    if (capabilities->max_work_group_size < group)
        group = (uint32_t)capabilities->max_work_group_size;
    if (capabilities->max_work_item_size < group)
        group = (uint32_t)capabilities->max_work_item_size;
    *certain = true;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < count; i++) {
            struct attempt attempt = {.local_bytes = candidates[i], .half = round == 0, .group = group};
            const clattn_status status = try_one(context, &attempt, error);
            if (status)
                return status;
            if (attempt.out_of_memory)
                *certain = false;
            if (!attempt.accepted)
                continue;
            *answer = (struct answer){.static_local_bytes = attempt.local_bytes,
                                      .half_loads = attempt.half_right,
                                      .multiple = (uint32_t)attempt.multiple};
            return ask_units(context, answer, certain, error);
        }
    }
    *certain = false;
    cla_say(&context->log, CLATTN_LOG_WARNING, "device \"%s\" does not run even the kernel that probes it",
            capabilities->device_name);
    return CLATTN_SUCCESS;
}

/* Some runtimes report another local memory size or group limit from run to run: a new size is a new question. */
static void write_identity(const struct clattn_capabilities *capabilities, struct cla_text *identity)
{
    cla_text_printf(identity, "probe 6\n");
    cla_device_identity(capabilities, identity);
    cla_text_printf(identity, "local memory %" PRIu64 ", type %d, group %" PRIu64 ", %" PRIu64 "\n",
                    capabilities->local_memory_bytes, (int)capabilities->local_memory_type,
                    capabilities->max_work_group_size, capabilities->max_work_item_size);
    if (is_this_processor(capabilities)) /* a cache may be shared by machines whose devices have one name */
        cla_text_printf(identity, "avx512_bf16 %d, amx_bf16 %d\n", may_try_dot(capabilities),
                        may_try_amx(capabilities));
}

static const char answer_format[] =
    "static local bytes %" PRIu64 ", half loads %d, multiple %" PRIu32 ", wgmma %d, cpu dot %d, amx %d, matrix %d\n";

static bool load_answer(const char *directory, const char *identity, struct answer *answer)
{
    void *payload = NULL;
    size_t size = 0;
    if (!cla_binary_cache_load(directory, identity, &payload, &size))
        return false;
    char text[128];
    snprintf(text, sizeof text, "%.*s", (int)(size < sizeof text ? size : 0), (const char *)payload);
    free(payload);
    int half_loads = 0, wgmma = 0, dot = 0, amx = 0, matrix = 0;
    if (sscanf(text,
               "static local bytes %" SCNu64 ", half loads %d, multiple %" SCNu32
               ", wgmma %d, cpu dot %d, amx %d, matrix %d",
               &answer->static_local_bytes, &half_loads, &answer->multiple, &wgmma, &dot, &amx, &matrix) != 7)
        return false;
    answer->cpu_dot = dot != 0;
    answer->cpu_amx = amx != 0;
    answer->matrix = matrix != 0;
    answer->half_loads = half_loads != 0;
    answer->wgmma = wgmma != 0;
    return true;
}

static void store_answer(const char *directory, const char *identity, const struct answer *answer)
{
    char text[128];
    const int length =
        snprintf(text, sizeof text, answer_format, answer->static_local_bytes, (int)answer->half_loads,
                 answer->multiple, (int)answer->wgmma, (int)answer->cpu_dot, (int)answer->cpu_amx, (int)answer->matrix);
    cla_binary_cache_store(directory, identity, text, (size_t)length);
}

/* A unit that is there, unless the environment says that it is not to be taken. */
static bool takes(bool there, const char *name)
{
    return there && !cla_os_disables(name);
}

/* The same of a matrix unit. One that needs no probe is right. */
static bool takes_matrix(const struct clattn_capabilities *capabilities, bool right)
{
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, CLATTN_FP16);
    return unit && (unit->trust == CLA_UNIT_PROVEN || takes(right, unit->name));
}

static const char *unit_word(bool there, bool taken)
{
    return !there ? "no" : taken ? "yes" : "disabled";
}

void clattn_capabilities_apply_known(struct clattn_capabilities *capabilities)
{
    if (!capabilities)
        return;
    cla_apply_known(capabilities);
    capabilities->nv_wgmma = takes(capabilities->nv_wgmma, CLA_WAY_WGMMA);
    capabilities->matrix_unit_right = takes_matrix(capabilities, capabilities->matrix_unit_right);
}

clattn_status cla_probe(struct clattn_context *context, struct cla_error *error)
{
    struct clattn_capabilities *capabilities = &context->capabilities;
    struct answer answer = {0};
    struct cla_text identity = {0};
    clattn_status status = CLATTN_SUCCESS;
    write_identity(capabilities, &identity);
    if (identity.failed) {
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for the identity of a device");
        goto done;
    }
    const bool known = load_answer(context->cache_directory, identity.data, &answer);
    if (!known) {
        bool certain = false;
        status = ask(context, &answer, &certain, error);
        if (status)
            goto done;
        if (certain)
            store_answer(context->cache_directory, identity.data, &answer);
    }
    capabilities->static_local_memory_bytes = answer.static_local_bytes;
    capabilities->half_loads = answer.half_loads;
    capabilities->nv_wgmma = takes(answer.wgmma, CLA_WAY_WGMMA);
    capabilities->cpu_bf16_dot = takes(answer.cpu_dot, CLA_WAY_BF16_PAIRS);
    capabilities->cpu_amx_bf16 = takes(answer.cpu_amx, CLA_WAY_BF16_TILES);
    capabilities->matrix_unit_right = takes_matrix(capabilities, answer.matrix);
    if (!capabilities->preferred_work_group_multiple)
        capabilities->preferred_work_group_multiple = answer.multiple;
    cla_say(&context->log, CLATTN_LOG_INFO,
            "probe: static local memory of %" PRIu64
            " bytes, half loads %s, wgmma %s, avx512_bf16 %s, amx_bf16 %s, by %s",
            answer.static_local_bytes, answer.half_loads ? "right" : "not right",
            unit_word(answer.wgmma, capabilities->nv_wgmma), unit_word(answer.cpu_dot, capabilities->cpu_bf16_dot),
            unit_word(answer.cpu_amx, capabilities->cpu_amx_bf16), known ? "the cache" : "running a kernel");
done:
    cla_text_free(&identity);
    return status;
}
