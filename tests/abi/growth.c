/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Plans for a made-up device. Built against headers of an earlier or of a later release than the library's; the later
 * ones have a member `later` in struct clattn_problem. Needs no device. */
#include <clattn/clattn.h>
#include <stdio.h>
#include <string.h>

static struct clattn_capabilities made_up(void)
{
    struct clattn_capabilities device = {.type = CLATTN_DEVICE_CPU,
                                         .available = true,
                                         .compiler_available = true,
                                         .compute_units = 4,
                                         .max_work_group_size = 1024,
                                         .max_work_item_size = 1024,
                                         .native_vector_width_float = 8,
                                         .global_memory_bytes = UINT64_C(8) << 30,
                                         .max_allocation_bytes = UINT64_C(2) << 30,
                                         .local_memory_bytes = 65536};
    strcpy(device.device_name, "made up");
    return device;
}

int main(void)
{
    const struct clattn_capabilities device = made_up();
    struct clattn_plan_info info;
    struct clattn_problem problem = {.d = 64, .expected_n_q = 512};
    if (clattn_plan_preview(&device, &problem, &info)) {
        printf("a problem of before is refused: %s\n", clattn_error_message());
        return 1;
    }
    if (info.t_r != (512 + info.b_r - 1) / info.b_r || info.reserved[0]) {
        printf("the answer is read at wrong places: T_r %lld, B_r %d\n", (long long)info.t_r, info.b_r);
        return 1;
    }
#ifdef LATER
    problem.later = 1;
    if (clattn_plan_preview(&device, &problem, &info) != CLATTN_INVALID_ARGUMENT ||
        !strstr(clattn_error_message(), "reserved room of struct clattn_problem must be 0") ||
        !strstr(clattn_error_message(), "newer headers")) {
        printf("a member that the library does not know is passed over, or refused by: %s\n", clattn_error_message());
        return 1;
    }
#endif
    printf("library %s: B_r %d, B_c %d\n", clattn_version(), info.b_r, info.b_c);
    return 0;
}
