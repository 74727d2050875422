/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/matrix_units.h"
#include "plan/machine.h"
#include "plan/planner.h"
#include "plan/problem.h"
#include "plan/sizes.h"
#include "plan/types.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    TENSOR_CORES = 705, /* the first NVIDIA compute capability with ldmatrix, */
    BF16_PRODUCTS = 800 /* and with products of bf16 and of tf32, and asynchronous copies */
};

int cla_pieces(int elements)
{
    return (elements + CLA_PIECE - 1) / CLA_PIECE;
}

int cla_widest(const struct clattn_problem *problem)
{
    return problem->d > problem->d_v ? problem->d : problem->d_v;
}

int cla_panels(int columns)
{
    return (columns + CLA_PANEL - 1) / CLA_PANEL;
}

int cla_matrix_pitch(const struct clattn_problem *problem, int columns)
{
    return ((int)clattn_dtype_size(problem->dtype) * cla_pieces(columns) | 1) * 16;
}

/* Beyond about 1e8 the kernels' bound of scores not seen, -1e30, times the scale is no longer a float. */
static bool scale_is_moderate(const struct clattn_problem *problem)
{
    return fabs((double)problem->scale) * 1.4426950408889634 < 1e8;
}

clattn_status cla_matrix_check_problem(const struct clattn_problem *problem, const char *name, struct cla_error *error)
{
    const int widest = cla_widest(problem);
    const clattn_status status = cla_types_check_plain(problem, name, error);
    if (status)
        return status;
    if (widest > CLA_MATRIX_LARGEST_D)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.%s is %d: %s takes head dimensions from 1 to %d: take another skeleton",
                        problem->d > CLA_MATRIX_LARGEST_D ? "d" : "d_v", widest, name, CLA_MATRIX_LARGEST_D);
    if (!scale_is_moderate(problem))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.scale is %g: %s takes scales between -6.9e7 and 6.9e7: take another skeleton",
                        (double)problem->scale, name);
    return CLATTN_SUCCESS;
}

clattn_status cla_matrix_check_16_bits(const struct clattn_problem *problem, const char *name, struct cla_error *error)
{
    if (clattn_dtype_size(problem->dtype) != 2)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.dtype is %s: %s multiplies 16-bit elements: take CLATTN_FP16 or CLATTN_BF16, or "
                        "another skeleton",
                        clattn_dtype_name(problem->dtype), name);
    return cla_matrix_check_problem(problem, name, error);
}

/* A row of programs. */
#define PROGRAMS(...)                                                                                                  \
    {                                                                                                                  \
        {__VA_ARGS__, "forward_matrix.cl", NULL}, {__VA_ARGS__, "backward_matrix.cl", NULL},                           \
            {__VA_ARGS__, "peak_matrix.cl", NULL},                                                                     \
        {                                                                                                              \
            __VA_ARGS__, "probe_unit.cl", NULL                                                                         \
        }                                                                                                              \
    }
const char *const cla_nvidia_mma_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES] = PROGRAMS("unit/nvidia_bytes.clh");
static const char *const tf32_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES] = PROGRAMS("unit/nvidia_tf32.clh");
const char *const cla_emulated_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES] = PROGRAMS("unit/emulated.clh");
static const char *const amd_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES] = PROGRAMS("unit/amd_matrix.clh");
static const char *const emulated_column_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES] = PROGRAMS("unit/emulated_column.clh");
static const char *const dpas_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES] =
    PROGRAMS("unit/intel_builtins.clh", "unit/intel_dpas.clh");
static const char *const emulated_dpas_files[CLA_UNIT_KERNELS][CLA_UNIT_FILES] =
    PROGRAMS("unit/emulated_dpas.clh", "unit/intel_dpas.clh");

static bool has_tensor_cores(const struct clattn_capabilities *capabilities)
{
    return cla_has_extension(capabilities, "cl_nv_device_attribute_query") &&
           (int)capabilities->nv_compute_capability >= TENSOR_CORES;
}

static bool tensor_cores_take(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype)
{
    return dtype == CLATTN_FP16 || (dtype == CLATTN_BF16 && (int)capabilities->nv_compute_capability >= BF16_PRODUCTS);
}

static bool has_tf32(const struct clattn_capabilities *capabilities)
{
    return has_tensor_cores(capabilities) && (int)capabilities->nv_compute_capability >= BF16_PRODUCTS;
}

static bool takes_fp32(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype)
{
    (void)capabilities;
    return dtype == CLATTN_FP32;
}

/* AMD's chips whose instructions are those that cl/unit/amd_matrix.clh asks for. A compiler that is asked for
 * another chip's ends its process, so that only these are. */
static const struct {
    const char *chip;
    int level, lanes;
} amd_chips[] = {{"gfx1100", 11, 32}, {"gfx1101", 11, 32}, {"gfx1102", 11, 32}, {"gfx1200", 12, 32},
                 {"gfx1201", 12, 32}, {"gfx90a", 9, 64},   {"gfx942", 9, 64}};

/* 0: it has none. Mesa's drivers, which do not know the instructions, say another name. */
static int amd_level(const struct clattn_capabilities *capabilities)
{
    if (!cla_has_extension(capabilities, "cl_amd_device_attribute_query"))
        return 0;
    for (size_t i = 0; i < sizeof amd_chips / sizeof *amd_chips; i++) {
        const size_t length = strcspn(capabilities->device_name, ":");
        if (strlen(amd_chips[i].chip) == length && memcmp(capabilities->device_name, amd_chips[i].chip, length) == 0 &&
            (int)capabilities->sub_group_size == amd_chips[i].lanes)
            return amd_chips[i].level;
    }
    return 0;
}

static bool has_wmma(const struct clattn_capabilities *capabilities)
{
    return amd_level(capabilities) > 9;
}

static bool has_mfma(const struct clattn_capabilities *capabilities)
{
    return amd_level(capabilities) == 9;
}

/* Intel's: the sub-groups that DPAS goes by, 8 (DG2) or 16 (PVC, Xe2), which are the smallest of each. The compiler
 * makes no DPAS of other sizes, and no error, so that the kernels have to ask for this one. 0: it has none. */
static int intel_lanes(const struct clattn_capabilities *capabilities)
{
    const int lanes = (int)capabilities->sub_group_size;
    const bool there = cla_has_extension(capabilities, "cl_intel_subgroup_matrix_multiply_accumulate") &&
                       cla_has_extension(capabilities, "cl_intel_required_subgroup_size") &&
                       cla_has_extension(capabilities, "cl_intel_subgroup_local_block_io");
    return there && (lanes == 8 || lanes == 16) ? lanes : 0;
}

static bool has_dpas_8(const struct clattn_capabilities *capabilities)
{
    return intel_lanes(capabilities) == 8;
}

static bool has_dpas_16(const struct clattn_capabilities *capabilities)
{
    return intel_lanes(capabilities) == 16;
}

static bool takes_16_bits(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype)
{
    (void)capabilities;
    return clattn_dtype_size(dtype) == 2;
}

static bool takes_all(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype)
{
    (void)capabilities;
    (void)dtype;
    return true;
}

#define TAKES_16_BITS .takes = takes_16_bits, .takes_text = "fp16 and bf16"

/* An emulation's row: its header, whose programs are HEADER_files, and its lanes, which the header is told, then what
 * struct cla_matrix_unit has beside. ONE_SUB_GROUP: where its lanes meet at barriers. tests/meson.build reads these
 * lines, so that each has tests. */
#define EMULATION(header, count, ...)                                                                                  \
    {                                                                                                                  \
        .name = #header, .files = header##_files, .lanes = count, .level_name = "CLATTN_LANES", __VA_ARGS__            \
    }
#define ONE_SUB_GROUP .one_sub_group = true

const struct cla_matrix_unit cla_matrix_units[] = {
    [CLA_NVIDIA_MMA] = {.name = "nvidia_mma",
                        .files = cla_nvidia_mma_files,
                        .lanes = CLA_NVIDIA_LANES,
                        .slots = 2,
                        .operand_words = 4,
                        .most_words = 255,
                        .stores_philox = true,
                        .stream_rows = 8,
                        .level_name = "CLATTN_COMPUTE_CAPABILITY",
                        .level = cla_matrix_capability,
                        .devices =
                            "NVIDIA devices of compute capability 7.5 and above, with cl_nv_device_attribute_query",
                        .is_there = has_tensor_cores,
                        .takes = tensor_cores_take,
                        .takes_text = "fp16, and bf16 from compute capability 8.0 on"},
    [CLA_EMULATED] = {.name = "emulated",
                      .files = cla_emulated_files,
                      .lanes = CLA_EMULATED_LANES,
                      .slots = 16,
                      .operand_words = 256,
                      .stores_philox = true,
                      .adds = true,
                      .stream_rows = 8,
                      .takes = takes_all,
                      .takes_text = "fp32, fp16 and bf16"},
    {.name = "nvidia_tf32",
     .trust = CLA_UNIT_BY_REQUEST,
     .why_not = "where scores are in the hundreds, its gradients miss the error rule of fp32",
     .files = tf32_files,
     .lanes = CLA_NVIDIA_LANES,
     .slots = 2,
     .operand_words = 8,
     .most_words = 255,
     .stores_philox = true,
     .adds = true,
     .level_name = "CLATTN_COMPUTE_CAPABILITY",
     .level = cla_matrix_capability,
     .devices = "of these, fp32 on those of compute capability 8.0 and above",
     .is_there = has_tf32,
     .takes = takes_fp32,
     .takes_text = "fp32"},
    {.name = "amd_wmma",
     .trust = CLA_UNIT_PROBED,
     .files = amd_files,
     .fetches = true,
     .most_words = 144, /* clang 19: 215 to 256 registers of 256 */
     .stores_philox = true,
     .lanes = 32,
     .slots = 1,
     .operand_words = 8,
     .level_name = "CLATTN_AMD",
     .level = amd_level,
     .devices = "AMD's gfx1100, gfx1101, gfx1102, gfx1200 and gfx1201, with sub-groups of 32",
     .is_there = has_wmma,
     TAKES_16_BITS},
    {.name = "amd_mfma",
     .trust = CLA_UNIT_PROBED,
     .files = amd_files,
     .fetches = true,
     .most_words = 144, /* clang 19: 215 to 256 registers of 256 */
     .stores_philox = true,
     .lanes = 64,
     .slots = 1,
     .operand_words = 2,
     .level_name = "CLATTN_AMD",
     .level = amd_level,
     .devices = "AMD's gfx90a and gfx942",
     .is_there = has_mfma,
     TAKES_16_BITS},
    {.name = "intel_dpas",
     .trust = CLA_UNIT_PROBED,
     .files = dpas_files,
     .lanes = 8,
     .slots = 2,
     .operand_words = 16,
     .most_words = 128,
     .most_d = 64,
     .planned_d = 32,
     .forward_alone = true,
     .level_name = "CLATTN_LANES",
     .level = intel_lanes,
     .devices = "Intel's with cl_intel_subgroup_matrix_multiply_accumulate, cl_intel_required_subgroup_size and "
                "cl_intel_subgroup_local_block_io, whose smallest sub-group is 8",
     .is_there = has_dpas_8,
     TAKES_16_BITS},
    {.name = "intel_dpas",
     .trust = CLA_UNIT_PROBED,
     .files = dpas_files,
     .lanes = 16,
     .slots = 1,
     .operand_words = 8,
     .most_words = 128,
     .stores_philox = true,
     .most_d = 128,
     .planned_d_dropout = 96,
     .level_name = "CLATTN_LANES",
     .level = intel_lanes,
     .devices = "and those where it is 16",
     .is_there = has_dpas_16,
     TAKES_16_BITS},
    EMULATION(emulated_dpas, 8, .slots = 2, .operand_words = 16, .scratch_bytes = 1536, ONE_SUB_GROUP, TAKES_16_BITS),
    EMULATION(emulated_dpas, 16, .slots = 1, .operand_words = 8, .scratch_bytes = 1536, .stores_philox = true,
              ONE_SUB_GROUP, TAKES_16_BITS),
    EMULATION(emulated_column, 32, .slots = 8, .operand_words = 4, .scratch_bytes = 2048, ONE_SUB_GROUP, TAKES_16_BITS),
    EMULATION(emulated_column, 64, .slots = 4, .operand_words = 2, .scratch_bytes = 2048, ONE_SUB_GROUP, TAKES_16_BITS),
    {.name = NULL},
};

const struct cla_matrix_unit *cla_matrix_unit_of(const struct clattn_capabilities *capabilities,
                                                 enum clattn_dtype dtype)
{
    const struct cla_matrix_unit *first = NULL;
    for (const struct cla_matrix_unit *unit = cla_matrix_units; unit->name; unit++)
        if (unit->devices && unit->is_there(capabilities)) {
            if (unit->takes(capabilities, dtype))
                return unit;
            first = first ? first : unit;
        }
    return first;
}

bool cla_matrix_is_trusted(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype)
{
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, dtype);
    return unit &&
           (unit->trust == CLA_UNIT_PROVEN || (unit->trust == CLA_UNIT_PROBED && capabilities->matrix_unit_right));
}

const struct cla_matrix_unit *cla_matrix_emulation(int lanes, int number)
{
    const struct cla_matrix_unit *found = NULL;
    int count = 0;
    for (const struct cla_matrix_unit *unit = cla_matrix_units; unit->name; unit++) {
        count += !unit->devices && unit->lanes == lanes;
        if (!unit->devices && unit->lanes == lanes && (number == 0 || number == count))
            found = unit;
    }
    return number == 0 && count > 1 ? NULL : found;
}

int cla_matrix_emulation_number(const struct cla_matrix_unit *emulation)
{
    int number = 1;
    for (const struct cla_matrix_unit *unit = cla_matrix_units; unit != emulation; unit++)
        number += !unit->devices && unit->lanes == emulation->lanes;
    return number;
}

int cla_matrix_level(const struct cla_matrix_unit *unit, const struct clattn_capabilities *capabilities)
{
    return unit->level ? unit->level(capabilities) : 0;
}

void cla_matrix_unit_define(const struct cla_matrix_unit *unit, int level, struct cla_text *text)
{
    if (unit->level_name)
        cla_text_printf(text, "#define %s %d\n", unit->level_name, unit->devices ? level : unit->lanes);
}

static clattn_status no_unit(const struct clattn_capabilities *capabilities, const char *name, struct cla_error *error)
{
    char devices[1024] = "";
    size_t used = 0;
    for (const struct cla_matrix_unit *unit = cla_matrix_units; unit->name && used < sizeof devices; unit++)
        if (unit->devices)
            used += (size_t)snprintf(devices + used, sizeof devices - used, "%s%s", used ? "; " : "", unit->devices);
    const int capability = (int)capabilities->nv_compute_capability;
    return cla_fail(error, CLATTN_NOTHING_FITS,
                    "problem.skeleton is \"%s\", and the device %s (compute capability %d.%d; 0.0: none) has no matrix "
                    "unit of those that it runs on: %s: take another skeleton",
                    name, capabilities->device_name, capability / 100, capability % 100, devices);
}

clattn_status cla_matrix_check(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                               const char *name, struct cla_error *error)
{
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, problem->dtype);
    const clattn_status status = cla_matrix_check_problem(problem, name, error);
    if (status)
        return status;
    if (!unit)
        return no_unit(capabilities, name, error);
    if (!unit->takes(capabilities, problem->dtype))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.dtype is %s: %s takes, on the device %s, %s: take another type or skeleton",
                        clattn_dtype_name(problem->dtype), name, capabilities->device_name, unit->takes_text);
    if (unit->most_d && cla_widest(problem) > unit->most_d)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.%s is %d: %s takes, on the device %s, head dimensions up to %d, since registers hold "
                        "no wider rows: take another skeleton",
                        problem->d > unit->most_d ? "d" : "d_v", cla_widest(problem), name, capabilities->device_name,
                        unit->most_d);
    return CLATTN_SUCCESS;
}

clattn_status cla_matrix_check_warp_groups(const struct clattn_capabilities *capabilities,
                                           const struct clattn_problem *problem, const char *name,
                                           struct cla_error *error)
{
    const clattn_status status = cla_matrix_check_16_bits(problem, name, error);
    if (status || capabilities->nv_wgmma)
        return status;
    return cla_fail(
        error, CLATTN_NOTHING_FITS,
        "problem.skeleton is \"%s\", and the device %s does not multiply by warp groups: it runs on NVIDIA devices of "
        "compute capability 9.0 whose driver takes retargeted PTX, unless CLATTN_DISABLE says otherwise: take another "
        "skeleton",
        name, capabilities->device_name);
}
