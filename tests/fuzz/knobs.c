/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Knobs as text; the first byte chooses the skeleton. What is read can be written and reads the same again. */
#include "plan/tuning/knobs.h"
#include "fuzz/fuzz.h"
#include "plan/skeleton.h"
#include <string.h>

static void check(const struct cla_skeleton *skeleton, const struct cla_config *config)
{
    char text[256];
    struct cla_config again = {0};
    struct cla_error error = {0};
    cla_knobs_write(skeleton, config, text, sizeof text);
    FUZZ_REQUIRE(!cla_knobs_read(skeleton, text, &again, &error));
    for (const struct cla_knob *knob = skeleton->knobs; knob->name; knob++) {
        const int value = cla_knob_get(knob, config);
        FUZZ_REQUIRE(value == cla_knob_get(knob, &again));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int skeletons = 0;
    while (cla_skeletons[skeletons])
        skeletons++;
    if (!size)
        return 0;
    const struct cla_skeleton *skeleton = cla_skeletons[data[0] % skeletons];
    struct cla_config config = {0};
    struct cla_error error = {0};
    char *text = fuzz_terminated(data + 1, size - 1);
    if (skeleton->knobs) {
        /* A config that is all zeros need not be valid; one that has each knob's first value is. */
        for (const struct cla_knob *knob = skeleton->knobs; knob->name; knob++)
            cla_knob_set(knob, &config, knob->least);
        if (!cla_knobs_read(skeleton, text, &config, &error))
            check(skeleton, &config);
    }
    fuzz_release(text, size);
    return 0;
}
