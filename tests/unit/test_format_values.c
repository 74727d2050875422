/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Formats of K and V on the host: known bytes, each value kept by rounding it, errors below half a step. */
#include "random.h"
#include "reference/formats.h"
#include "support/unit.h"
#include <math.h>
#include <string.h>

static void bytes_have_known_values(void **state)
{
    (void)state;
    static const struct {
        int type;
        uint8_t row[34];
        int x;
        float value;
    } rows[] = {
        {CLATTN_AS_INT8, {0x80, 0x7f}, 0, -128},
        {CLATTN_AS_INT8, {0x80, 0x7f}, 1, 127},
        {CLATTN_AS_INT4, {0x87}, 0, 7},
        {CLATTN_AS_INT4, {0x87}, 1, -8},
        {CLATTN_AS_FP8_E4M3, {0x7e}, 0, 448},
        {CLATTN_AS_FP8_E4M3, {0x81}, 0, -0x1p-9f},
        {CLATTN_AS_FP8_E4M3, {0x08}, 0, 0x1p-6f},
        {CLATTN_AS_FP8_E4M3, {0x38}, 0, 1},
        {CLATTN_AS_FP8_E5M2, {0x7b}, 0, 57344},
        {CLATTN_AS_FP8_E5M2, {0x01}, 0, 0x1p-16f},
        {CLATTN_AS_FP8_E5M2, {0xfc}, 0, -INFINITY},
        {CLATTN_AS_FP8_E5M2, {0x3c}, 0, 1},
        {CLATTN_AS_Q8_0, {0x00, 0x38, 0xff, 5}, 0, -0.5f}, /* d is 0.5 */
        {CLATTN_AS_Q8_0, {0x00, 0x38, 0xff, 5}, 1, 2.5f},
        {CLATTN_AS_Q4_0, {0x00, 0x40, 0xf0}, 0, -16}, /* d is 2 */
        {CLATTN_AS_Q4_0, {0x00, 0x40, 0xf0}, 16, 14},
    };
    EACH (i, rows)
        assert_true(formats_stored(rows[i].type, rows[i].row, rows[i].x) == rows[i].value);
    const uint8_t nan = 0x7f;
    assert_true(isnan(formats_stored(CLATTN_AS_FP8_E4M3, &nan, 0)) &&
                isnan(formats_stored(CLATTN_AS_FP8_E5M2, &nan, 0)));
}

static void rows_are_whole_blocks(void **state)
{
    (void)state;
    assert_int_equal(formats_row_bytes(CLATTN_AS_INT8, 65), 65);
    assert_int_equal(formats_row_bytes(CLATTN_AS_INT4, 65), 33);
    assert_int_equal(formats_row_bytes(CLATTN_AS_Q8_0, 65), 3 * 34);
    assert_int_equal(formats_row_bytes(CLATTN_AS_Q4_0, 64), 2 * 18);
}

/* With the largest value as it is, the scale is 1 and every other number of the type stays. */
static void values_of_the_type_are_kept(void **state)
{
    (void)state;
    static const float largest[] = {
        [CLATTN_AS_INT8] = 127, [CLATTN_AS_INT4] = 7, [CLATTN_AS_FP8_E4M3] = 448, [CLATTN_AS_FP8_E5M2] = 57344};
    for (int type = CLATTN_AS_INT8; type <= CLATTN_AS_FP8_E5M2; type++)
        for (int byte = 0; byte < 256; byte++) {
            const struct formats_way way = {.type = type, .columns = 2};
            const uint8_t given = (uint8_t)byte;
            float values[2] = {formats_stored(type, &given, 0), largest[type]}, again[2], scale;
            uint8_t row[2];
            if (!(fabsf(values[0]) <= largest[type]))
                continue;
            formats_quantise(&way, values, row, &scale, NULL);
            formats_expand(&way, row, &scale, NULL, again);
            assert_true(scale == 1.0f && again[0] == values[0] && again[1] == values[1]);
        }
}

static void rounding_is_below_half_a_step(void **state)
{
    (void)state;
    static const struct {
        struct formats_way way;
        float step; /* of the largest value, or of all from least to most */
    } rows[] = {{{CLATTN_AS_INT8, 77, 0, false}, 1.0f / 127},   {{CLATTN_AS_INT8, 77, 16, true}, 1.0f / 127},
                {{CLATTN_AS_INT4, 77, 5, false}, 1.0f / 7},     {{CLATTN_AS_INT4, 77, 0, true}, 1.0f / 7},
                {{CLATTN_AS_FP8_E4M3, 77, 3, false}, 1.0f / 8}, {{CLATTN_AS_FP8_E5M2, 77, 0, false}, 1.0f / 4},
                {{CLATTN_AS_Q8_0, 77, 0, false}, 1.0f / 127},   {{CLATTN_AS_Q4_0, 77, 0, false}, 1.0f / 4}};
    struct random random = {.state = 3};
    EACH (i, rows) {
        float values[77], again[77], scales[77], zeros[77], largest = 0;
        uint8_t row[128];
        random_normal(&random, 1.0, values, 77);
        for (int x = 0; x < 77; x++)
            largest = fmaxf(largest, fabsf(values[x]));
        formats_quantise(&rows[i].way, values, row, scales, zeros);
        formats_expand(&rows[i].way, row, scales, zeros, again);
        for (int x = 0; x < 77; x++)
            assert_true(fabsf(values[x] - again[x]) <= 0.51f * rows[i].step * largest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_known_values),
        cmocka_unit_test(rows_are_whole_blocks),
        cmocka_unit_test(values_of_the_type_are_kept),
        cmocka_unit_test(rounding_is_below_half_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
