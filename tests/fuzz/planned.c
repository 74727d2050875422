/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuzz/planned.h"
#include "plan/skeleton.h"
#include <stdio.h>
#include <string.h>

static const char *const platforms[] = {"NVIDIA CUDA", "Portable Computing Language",
                                        "AMD Accelerated Parallel Processing", "Intel(R) OpenCL Graphics", ""};
static const char *const devices[] = {
    "NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "gfx90a", "cpu-x", ""};
static const char *const extensions[] = {"cl_khr_fp16 cl_khr_subgroups cl_nv_device_attribute_query", "cl_khr_fp16", "",
                                         "cl_nv_device_attribute_query"};
#define COUNT(array) ((int)(sizeof array / sizeof *array))

static void text(struct fuzz_bytes *bytes, char *to, size_t size, const char *const *known, int count)
{
    const uint8_t which = fuzz_byte(bytes);
    if (which < 200) {
        snprintf(to, size, "%s", known[which % count]);
        return;
    }
    fuzz_take(bytes, to, size < 24 ? size : 24);
    to[size - 1] = '\0';
}

static uint32_t number32(struct fuzz_bytes *bytes)
{
    return (uint32_t)fuzz_number(bytes);
}

static void sizes(struct fuzz_bytes *bytes, struct clattn_capabilities *to)
{
    to->address_bits = number32(bytes);
    to->compute_units = number32(bytes);
    to->clock_mhz = number32(bytes);
    to->max_work_group_size = fuzz_number(bytes);
    to->max_work_item_size = fuzz_number(bytes);
    to->preferred_work_group_multiple = number32(bytes);
    to->native_vector_width_float = number32(bytes);
    to->max_sub_groups = number32(bytes);
    to->sub_group_size = number32(bytes);
    to->global_memory_bytes = fuzz_number(bytes);
    to->max_allocation_bytes = fuzz_number(bytes);
    to->cache_bytes = fuzz_number(bytes);
    to->cache_line_bytes = number32(bytes);
    to->base_address_align_bits = number32(bytes);
    to->local_memory_type = (enum clattn_local_memory_type)(fuzz_number(bytes) % 3);
    to->local_memory_bytes = fuzz_number(bytes);
    to->nv_compute_capability = number32(bytes);
    to->nv_registers_per_group = number32(bytes);
    to->amd_simd_per_compute_unit = number32(bytes);
    to->amd_local_memory_per_compute_unit = fuzz_number(bytes);
    to->static_local_memory_bytes = fuzz_number(bytes);
}

void fuzz_capabilities(struct fuzz_bytes *bytes, struct clattn_capabilities *to)
{
    *to = (struct clattn_capabilities){
        .driver_version = "535.1", .device_version = "OpenCL 3.0 CUDA", .opencl_c_version = "OpenCL C 1.2"};
    text(bytes, to->platform_name, sizeof to->platform_name, platforms, COUNT(platforms));
    text(bytes, to->device_name, sizeof to->device_name, devices, COUNT(devices));
    text(bytes, to->vendor, sizeof to->vendor, platforms, COUNT(platforms));
    text(bytes, to->extensions, sizeof to->extensions, extensions, COUNT(extensions));
    to->vendor_id = number32(bytes);
    to->type = (enum clattn_device_type)(fuzz_number(bytes) % 4);
    const uint8_t flags = fuzz_byte(bytes);
    to->available = flags & 1;
    to->compiler_available = flags & 2;
    to->unified_memory = flags & 4;
    to->half_loads = flags & 8;
    to->nv_wgmma = flags & 16;
    sizes(bytes, to);
    if (flags & 32)
        clattn_capabilities_apply_known(to);
}

/* Some of the skeleton's knobs, at a value that is tried or any in range. */
static void choose_knobs(struct fuzz_bytes *bytes, const struct cla_skeleton *skeleton, char knobs[128])
{
    size_t length = 0;
    for (const struct cla_knob *knob = skeleton->knobs; knob && knob->name && length < 90; knob++) {
        const uint8_t kind = fuzz_byte(bytes);
        const uint64_t range = (uint64_t)((int64_t)knob->most - knob->least + 1);
        if (kind < 128)
            continue;
        const int value = kind < 192 && knob->tried_count ? knob->tried[kind % knob->tried_count]
                                                          : knob->least + (int)(fuzz_number(bytes) % range);
        length += (size_t)snprintf(knobs + length, 128 - length, "%s%s=%d", length ? " " : "", knob->name, value);
    }
}

static void force(struct fuzz_bytes *bytes, struct clattn_problem *to, char knobs[128])
{
    const uint8_t forced = fuzz_byte(bytes);
    const struct cla_skeleton *skeleton = NULL;
    int skeletons = 0;
    while (cla_skeletons[skeletons])
        skeletons++;
    if (forced & 1) {
        skeleton = cla_skeletons[(forced >> 2) % skeletons];
        to->skeleton = skeleton->name;
    }
    if (forced & 2) {
        to->b_r = (int)(fuzz_number(bytes) % 65537);
        to->b_c = (int)(fuzz_number(bytes) % 65537);
        to->work_group_size = (int)(fuzz_number(bytes) % 65537);
        if (skeleton)
            choose_knobs(bytes, skeleton, knobs);
        to->knobs = knobs[0] ? knobs : NULL;
    }
}

/* What the library has to refuse, too: numbers that are in no enumeration, sizes below 0, features that do not exist.
 */
static void spoil(struct fuzz_bytes *bytes, struct clattn_problem *to)
{
    const uint8_t which = fuzz_byte(bytes);
    const int any = (int)(uint32_t)fuzz_number(bytes);
    int *const fields[] = {&to->d, &to->d_v, &to->b_r, &to->b_c, &to->work_group_size, &to->splits};
    if (which < 6)
        *fields[which] = any;
    else if (which == 6)
        to->features = (unsigned)any;
    else if (which == 7)
        to->expected_n_q = any;
    else if (which == 8)
        to->dtype = (enum clattn_dtype)(any & 7);
    else if (which == 9)
        to->pass = (enum clattn_pass)(any & 7);
}

void fuzz_problem(struct fuzz_bytes *bytes, struct clattn_problem *to, char knobs[128])
{
    const uint8_t kind = fuzz_byte(bytes);
    knobs[0] = '\0';
    *to = (struct clattn_problem){.pass = (enum clattn_pass)(kind % 4),
                                  .dtype = (enum clattn_dtype)(kind / 4 % 3),
                                  .causal = (enum clattn_causal)(kind / 12 % 3),
                                  .unordered = kind / 36 % 2};
    to->d = 1 + (int)(fuzz_number(bytes) % 512);
    to->d_v = (int)(fuzz_number(bytes) % 513);
    if (!(kind & 128))
        fuzz_take(bytes, &to->scale, sizeof to->scale);
    to->features = (unsigned)fuzz_number(bytes) & 1023;
    if (to->features & CLATTN_BLOCK_MASK) {
        to->block_q = 16 * (1 + (int)(fuzz_number(bytes) % 4096));
        to->block_kv = 16 * (1 + (int)(fuzz_number(bytes) % 4096));
        to->expected_density = (float)(fuzz_number(bytes) % 101) / 100;
    }
    to->expected_n_q = (int64_t)(fuzz_number(bytes) >> 1);
    to->expected_n_kv = (int64_t)(fuzz_number(bytes) >> 1);
    to->expected_heads = (int64_t)(fuzz_number(bytes) >> 1);
    to->splits = to->pass ? 0 : (int)(fuzz_number(bytes) % 258) - 1;
    force(bytes, to, knobs);
    spoil(bytes, to);
}
