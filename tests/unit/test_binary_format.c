/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The cache file's format: its golden bytes, and that no damage of any kind gets through. */
#include "plan/binary_format.h"
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>

static const char identity[] = "device 7, driver 3";
static const char payload[] = "\0binary\xff";

static unsigned char *encoded(size_t *size)
{
    unsigned char *file = cla_binary_encode(identity, payload, sizeof payload, size);
    assert_non_null(file);
    return file;
}

static bool decodes(const void *file, size_t size)
{
    const void *found = NULL;
    size_t found_size = 0;
    return cla_binary_decode(file, size, identity, &found, &found_size);
}

static void what_goes_in_comes_out(void **state)
{
    (void)state;
    size_t size, found_size;
    const void *found;
    unsigned char *file = encoded(&size);
    assert_true(cla_binary_decode(file, size, identity, &found, &found_size));
    assert_int_equal(found_size, sizeof payload);
    assert_memory_equal(found, payload, sizeof payload);
    free(file);
}

static void an_empty_payload_is_one_too(void **state)
{
    (void)state;
    size_t size, found_size = 1;
    const void *found;
    unsigned char *file = cla_binary_encode("", NULL, 0, &size);
    assert_non_null(file);
    assert_true(cla_binary_decode(file, size, "", &found, &found_size));
    assert_int_equal(found_size, 0);
    free(file);
}

/* Files written today must be read tomorrow, or be known as old by their version. */
static void the_header_has_its_golden_bytes(void **state)
{
    (void)state;
    static const unsigned char golden[24] = {'c', 'l', 'a', 't', 't', 'n', 0x1a, '\n', 1, 0, 0, 0,
                                             18,  0,   0,   0,   9,   0,   0,    0,    0, 0, 0, 0};
    size_t size;
    unsigned char *file = encoded(&size);
    assert_int_equal(size, 40 + strlen(identity) + sizeof payload);
    assert_memory_equal(file, golden, sizeof golden);
    assert_memory_equal(file + 40, identity, strlen(identity));
    free(file);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    size_t size;
    unsigned char *file = encoded(&size);
    for (size_t length = 0; length < size; length++)
        assert_false(decodes(file, length));
    unsigned char *longer = calloc(1, size + 1);
    assert_non_null(longer);
    memcpy(longer, file, size);
    assert_false(decodes(longer, size + 1));
    free(longer);
    free(file);
}

static void any_flipped_bit_is_noticed(void **state)
{
    (void)state;
    size_t size;
    unsigned char *file = encoded(&size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        file[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(decodes(file, size));
        file[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(decodes(file, size));
    free(file);
}

static void a_foreign_identity_is_refused(void **state)
{
    (void)state;
    size_t size, found_size;
    const void *found;
    unsigned char *file = encoded(&size);
    assert_false(cla_binary_decode(file, size, "device 7, driver 4", &found, &found_size));
    assert_false(cla_binary_decode(file, size, "device 7", &found, &found_size));
    assert_false(cla_binary_decode(file, size, "", &found, &found_size));
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),          cmocka_unit_test(an_empty_payload_is_one_too),
        cmocka_unit_test(the_header_has_its_golden_bytes), cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(any_flipped_bit_is_noticed),      cmocka_unit_test(a_foreign_identity_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
