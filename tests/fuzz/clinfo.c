/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What clinfo printed, as JSON or raw. (Plans for any capabilities: plan.c.) */
#include "clinfo/clinfo.h"
#include "fuzz/fuzz.h"
#include <string.h>

static void check(struct clattn_capabilities *capabilities)
{
    FUZZ_REQUIRE(memchr(capabilities->platform_name, '\0', sizeof capabilities->platform_name));
    FUZZ_REQUIRE(memchr(capabilities->device_name, '\0', sizeof capabilities->device_name));
    FUZZ_REQUIRE(memchr(capabilities->extensions, '\0', sizeof capabilities->extensions));
    FUZZ_REQUIRE(capabilities->type >= CLATTN_DEVICE_OTHER && capabilities->type <= CLATTN_DEVICE_ACCELERATOR);
    FUZZ_REQUIRE(capabilities->local_memory_type >= CLATTN_LOCAL_MEMORY_NONE &&
                 capabilities->local_memory_type <= CLATTN_LOCAL_MEMORY_GLOBAL);
    clattn_capabilities_apply_known(capabilities);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct clinfo_devices devices;
    struct failure failure;
    char *text = fuzz_exact(data, size);
    if (!clinfo_parse("f", text, size, &devices, &failure)) {
        FUZZ_REQUIRE(devices.count > 0);
        for (int i = 0; i < devices.count; i++)
            check(&devices.items[i].capabilities);
        clinfo_free(&devices);
    }
    fuzz_release(text, size);
    return 0;
}
