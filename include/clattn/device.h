/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_DEVICE_H
#define CLATTN_DEVICE_H

#include <clattn/export.h>
#include <clattn/log.h>
#include <clattn/opencl.h>
#include <clattn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

CLATTN_BEGIN_DECLS

enum clattn_device_type {
    CLATTN_DEVICE_OTHER = 0,
    CLATTN_DEVICE_CPU = 1,
    CLATTN_DEVICE_GPU = 2,
    CLATTN_DEVICE_ACCELERATOR = 3
};

enum clattn_local_memory_type {
    CLATTN_LOCAL_MEMORY_NONE = 0,
    CLATTN_LOCAL_MEMORY_LOCAL = 1, /* dedicated on-chip storage */
    CLATTN_LOCAL_MEMORY_GLOBAL = 2 /* ordinary device memory, behind the device's caches */
};

/* What is known of a device: everything planning depends on, and nothing else. A plain struct, so that a plan can be
 * made from what clinfo said of a device that is not here. 0, false or "" means that the device has it not, or does not
 * say. */
struct clattn_capabilities {
    char platform_name[64];
    char platform_version[128];
    char device_name[128];
    char vendor[64];
    char device_version[128]; /* CL_DEVICE_VERSION, "OpenCL 3.0 ..." */
    char driver_version[64];
    char opencl_c_version[64]; /* CL_DEVICE_OPENCL_C_VERSION, "OpenCL C 1.2 ..." */
    char extensions[4096];     /* space-separated, cut at a space where longer */
    uint32_t vendor_id;
    enum clattn_device_type type;
    bool available;
    bool compiler_available;
    bool unified_memory; /* device and host share memory */
    uint32_t address_bits;

    uint32_t compute_units;
    uint32_t clock_mhz;
    uint64_t max_work_group_size;
    uint64_t max_work_item_size; /* in the first dimension */
    uint32_t preferred_work_group_multiple;
    uint32_t native_vector_width_float; /* 16 where a compute unit has 512-bit vectors; 1 on most GPUs */
    uint32_t max_sub_groups;            /* per work-group */
    uint32_t sub_group_size;            /* the smallest size the device offers; vendors' names: warp, wavefront */

    uint64_t global_memory_bytes;
    uint64_t max_allocation_bytes;
    uint64_t cache_bytes;
    uint32_t cache_line_bytes;
    uint32_t base_address_align_bits;
    enum clattn_local_memory_type local_memory_type;
    uint64_t local_memory_bytes; /* what the device says a work-group may use */

    /* Vendor attributes. */
    uint32_t nv_compute_capability;  /* 100 * major + minor: 900 on Hopper */
    uint32_t nv_registers_per_group; /* 32-bit registers that one work-group may hold */
    uint32_t amd_simd_per_compute_unit;
    uint64_t amd_local_memory_per_compute_unit;

    /* What the device gives beyond what it says. Found by building and running tiny kernels, once per context's device
     * and driver; from a table of known devices where the struct was filled from a dump. 0 / false: not known, plan
     * with what the device says. */
    uint64_t static_local_memory_bytes; /* the largest __local array that a kernel may declare */
    bool half_loads;                    /* vload_half and vstore_half give the right numbers */
    bool nv_wgmma; /* products by warp groups (compute capability 9.0): the driver takes PTX retargeted to sm_90a and
                    * the numbers are right. Never where the environment's CLATTN_DISABLE has "nvidia_wgmma" */

    uint64_t cpu_bf16_dot; /* 1: products of pairs of bf16 by AVX512-BF16 (a CPU): the processor has them, the driver
                            * compiles them and the numbers are right. It has AVX512-VNNI's, of pairs of integers of 16
                            * bits, too. Never where the environment's CLATTN_DISABLE has "avx512_bf16" */
    uint64_t cpu_amx_bf16; /* 1: products of tiles of bf16 by AMX (a CPU): the processor has them, the system lets this
                            * process use them, the driver compiles them and the numbers are right. On Linux a context
                            * of such a device asks the system for that (arch_prctl, ARCH_REQ_XCOMP_PERM): it holds for
                            * the whole process and what it starts from then on, whose signal frames grow by 8 KB. Never
                            * where the environment's CLATTN_DISABLE has "amx_bf16": nothing is asked for then */

    uint64_t matrix_unit_right; /* 1: the device has a matrix unit that plans take. AMD's WMMA and MFMA and Intel's
                                 * DPAS: a tile came out right; never where the environment's CLATTN_DISABLE names it:
                                 * "amd_wmma", "amd_mfma", "intel_dpas". NVIDIA's: always */

    uint64_t reserved[61]; /* 0: clattn/version.h */
};

/* Fills what can be filled from tables of known devices without running anything (static_local_memory_bytes,
 * half_loads, nv_wgmma and matrix_unit_right), leaving what is already known. For capabilities that came from a dump.
 * Any thread. */
CLATTN_API void clattn_capabilities_apply_known(struct clattn_capabilities *capabilities);

/* The library's hold on one device of a cl_context: its capabilities and its compiled programs.
 *
 * Threads: a context may be used by any number of threads at once; destroying it must be the last use. */
typedef struct clattn_context clattn_context;

struct clattn_tuning; /* clattn/tuning.h */

/* The caller owns `context` and `device`; the library retains them for as long as the clattn_context lives. */
struct clattn_context_params {
    cl_context context;
    cl_device_id device; /* one of the devices of `context` */
    struct clattn_log log;

    /* Where compiled programs are kept from one run to the next. NULL: the default directory, see <clattn/cache.h>. "":
     * nowhere. A directory that cannot be made or written to is no error: programs are then compiled each time. */
    const char *cache_directory;

    /* Tuning records that plans of this context look up before the library's own; copied. NULL: none. */
    const struct clattn_tuning *tuning;

    uint64_t reserved[16]; /* 0: clattn/version.h */
};

/* Queries and probes the device. The probes' outcome is kept in the cache directory. *context is set on success alone.
 *
 * Errors: CLATTN_INVALID_ARGUMENT; CLATTN_UNSUPPORTED_DEVICE where the device has no compiler or is not available;
 * OpenCL's own. */
CLATTN_API clattn_status clattn_context_create(clattn_context **context, const struct clattn_context_params *params);

/* Waits for nothing: plans made from the context must have been destroyed, their commands may still run. Sets *context
 * to NULL; accepts NULL and a handle that is NULL. */
CLATTN_API void clattn_context_destroy(clattn_context **context);

/* The capabilities of the context's device. They live as long as the context and never change; NULL for NULL. */
CLATTN_API const struct clattn_capabilities *clattn_context_capabilities(const clattn_context *context);

/* Queries a device without a context, and so without probing: what `clattn devices` lists. */
CLATTN_API clattn_status clattn_query_device(cl_device_id device, struct clattn_capabilities *capabilities);

CLATTN_END_DECLS

#endif
