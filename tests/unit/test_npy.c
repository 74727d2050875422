/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The .npy reader and writer: whole files in every version, files cut at every length, and everything that must be
 * refused with a message that names the file. */
#define _POSIX_C_SOURCE 200809L
#include "files/npy.h"
#include "support/unit.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file in memory: `header` behind the magic and the length of the given version, then `data_bytes` of zeros. */
struct image {
    unsigned char bytes[1024];
    size_t size;
};

static struct image make_image(int version, const char *header, size_t data_bytes)
{
    struct image image = {.size = 0};
    const size_t length = strlen(header), start = version == 1 ? 10 : 12;
    memcpy(image.bytes, "\x93NUMPY", 6);
    image.bytes[6] = (unsigned char)version;
    image.bytes[8] = (unsigned char)(length & 255);
    image.bytes[9] = (unsigned char)(length >> 8);
    assert_true(start + length + data_bytes <= sizeof image.bytes);
    memcpy(image.bytes + start, header, length);
    image.size = start + length + data_bytes;
    return image;
}

static int parse(const struct image *image, size_t size, struct npy_header *header, struct failure *failure)
{
    size_t offset = 0;
    void *exact = malloc(size ? size : 1); /* so that a sanitizer sees a read past the end */
    assert_non_null(exact);
    memcpy(exact, image->bytes, size);
    const int status = npy_parse_header("q.npy", exact, size, header, &offset, failure);
    if (!status)
        assert_true(offset <= size && size - offset >= npy_data_bytes(header));
    free(exact);
    return status;
}

static void expect_refused(const char *header, size_t data_bytes, const char *why)
{
    struct npy_header parsed;
    struct failure failure = {.text = ""};
    const struct image image = make_image(1, header, data_bytes);
    assert_int_equal(parse(&image, image.size, &parsed, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "q.npy"));
    if (!strstr(failure.text, why))
        fail_msg("'%s' does not say '%s'", failure.text, why);
}

static void every_version_and_type_is_read(void **state)
{
    (void)state;
    static const char *const types[] = {"<f4", "<f2", "<u2"};
    for (int version = 1; version <= 3; version++) {
        for (int type = 0; type < 3; type++) {
            char text[128];
            struct npy_header header;
            struct failure failure;
            snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3, 5), }\n", types[type]);
            const struct image image = make_image(version, text, 120);
            assert_int_equal(parse(&image, image.size, &header, &failure), STATUS_OK);
            assert_int_equal(header.type, type);
            assert_int_equal(header.dimensions, 3);
            assert_true(header.shape[0] == 2 && header.shape[1] == 3 && header.shape[2] == 5);
        }
    }
}

static void other_writers_forms_are_read(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "{\"shape\":(7,4),\"fortran_order\":False,\"descr\":\"<f4\"}",
        "  { 'shape' : ( 7L , 4L , ) , 'descr' : '<f4' , 'fortran_order' : False } \n",
        "{'fortran_order': False, 'descr': '<f4',\n 'shape': (7, 4)}",
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct npy_header header;
        struct failure failure = {.text = ""};
        const struct image image = make_image(1, forms[i], 112);
        if (parse(&image, image.size, &header, &failure))
            fail_msg("%s", failure.text);
        assert_true(header.dimensions == 2 && header.shape[0] == 7 && header.shape[1] == 4);
    }
}

static void empty_lengths_need_no_data(void **state)
{
    (void)state;
    struct npy_header header;
    struct failure failure;
    const struct image image = make_image(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0, 64), }", 0);
    assert_int_equal(parse(&image, image.size, &header, &failure), STATUS_OK);
    assert_true(npy_data_bytes(&header) == 0);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (int version = 1; version <= 3; version++) {
        const struct image image =
            make_image(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }  \n", 60);
        for (size_t size = 0; size < image.size; size++) {
            struct npy_header header;
            struct failure failure = {.text = ""};
            assert_int_equal(parse(&image, size, &header, &failure), STATUS_FILE);
            assert_non_null(strstr(failure.text, "q.npy"));
        }
    }
}

/* Whatever a byte turns into, the parser stays inside the file and a header it accepts has its data. */
static void flipped_bytes_do_no_harm(void **state)
{
    (void)state;
    struct image image = make_image(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }", 60);
    for (size_t at = 0; at < image.size - 60; at++) {
        for (int value = 0; value < 256; value++) {
            struct npy_header header;
            struct failure failure;
            const unsigned char held = image.bytes[at];
            image.bytes[at] = (unsigned char)value;
            parse(&image, image.size, &header, &failure);
            image.bytes[at] = held;
        }
    }
}

static void wrong_arrays_are_refused_with_the_reason(void **state)
{
    (void)state;
    expect_refused("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 5), }", 60, "Fortran order");
    expect_refused("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 5), }", 60, "big-endian");
    expect_refused("{'descr': '|O', 'fortran_order': False, 'shape': (3, 5), }", 60, "Python objects");
    expect_refused("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 5), }", 120, "'<f8'");
    expect_refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 60, "records");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4, "single number");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 3, 5), }", 60, "dimensions");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 6), }", 60, "needs 72 bytes");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 60, "too large");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775000), }", 0, "too large");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 5), }", 60, "2^63");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 5), }", 60, "shape");
    expect_refused("{'descr': '<f4', 'shape': (3, 5), }", 60, "fortran_order");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), 'more': 1}", 60, "keys");
    expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)", 60, "'}'");
    expect_refused("", 60, "'{'");
}

static void foreign_files_are_refused(void **state)
{
    (void)state;
    struct npy_header header;
    size_t offset;
    struct failure failure;
    assert_int_equal(npy_parse_header("x", "PK\3\4 a zip archive", 18, &header, &offset, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "not a .npy file"));
    struct image image = make_image(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }", 60);
    image.bytes[6] = 4;
    assert_int_equal(parse(&image, image.size, &header, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "version 4.0"));
}

/* Files: a folder of its own, removed afterwards. */
static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[4][160];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "npy-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(in_folder("a.npy"));
    unlink(in_folder("link.npy"));
    return rmdir(folder); /* fails where a temporary file was left */
}

static void write_whole(const char *path, const struct npy_header *header, const void *data)
{
    struct output_file output;
    struct failure failure = {.text = ""};
    if (output_create(path, &output, &failure) || npy_write(&output, header, data, &failure) ||
        output_commit(&output, &failure))
        fail_msg("%s", failure.text);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    float data[2 * 3 * 4 * 5];
    for (int i = 0; i < 120; i++)
        data[i] = (float)i / 7.0f;
    for (int dimensions = 1; dimensions <= 4; dimensions++) {
        struct npy_header header = {.type = NPY_FLOAT32, .dimensions = dimensions};
        for (int i = 0; i < dimensions; i++)
            header.shape[i] = i + 2;
        write_whole(in_folder("a.npy"), &header, data);
        struct npy_file file;
        struct failure failure = {.text = ""};
        if (npy_open(in_folder("a.npy"), &file, &failure))
            fail_msg("%s", failure.text);
        assert_int_equal(file.header.dimensions, dimensions);
        assert_memory_equal(file.header.shape, header.shape, (size_t)dimensions * sizeof header.shape[0]);
        assert_memory_equal(file.data, data, npy_data_bytes(&header));
        assert_int_equal((uintptr_t)file.data % 64, 0);
        npy_close(&file);
    }
}

static void unaligned_data_is_aligned(void **state)
{
    (void)state;
    const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}";
    struct image image = make_image(1, header, 16);
    const float values[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    memcpy(image.bytes + image.size - 16, values, 16);
    assert_true((image.size - 16) % 4 != 0);
    FILE *stream = fopen(in_folder("a.npy"), "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(image.bytes, 1, image.size, stream), image.size);
    fclose(stream);
    struct npy_file file;
    struct failure failure;
    assert_int_equal(npy_open(in_folder("a.npy"), &file, &failure), STATUS_OK);
    assert_int_equal((uintptr_t)file.data % 4, 0);
    assert_memory_equal(file.data, values, 16);
    npy_close(&file);
}

static void a_discarded_output_leaves_what_was_there(void **state)
{
    (void)state;
    const struct npy_header header = {.type = NPY_UINT16, .dimensions = 2, .shape = {1, 2}};
    const uint16_t old[2] = {1, 2}, new[2] = {3, 4};
    write_whole(in_folder("a.npy"), &header, old);
    struct output_file output;
    struct failure failure;
    assert_int_equal(output_create(in_folder("a.npy"), &output, &failure), STATUS_OK);
    assert_int_equal(npy_write(&output, &header, new, &failure), STATUS_OK);
    output_discard(&output);
    output_discard(&output); /* a second time is nothing */
    struct npy_file file;
    assert_int_equal(npy_open(in_folder("a.npy"), &file, &failure), STATUS_OK);
    assert_memory_equal(file.data, old, sizeof old);
    npy_close(&file);
}

static void a_link_stays_and_its_target_is_replaced(void **state)
{
    (void)state;
    const struct npy_header header = {.type = NPY_UINT16, .dimensions = 2, .shape = {1, 2}};
    const uint16_t old[2] = {1, 2}, new[2] = {3, 4};
    write_whole(in_folder("a.npy"), &header, old);
    assert_int_equal(symlink("a.npy", in_folder("link.npy")), 0);
    write_whole(in_folder("link.npy"), &header, new);
    struct stat status;
    assert_int_equal(lstat(in_folder("link.npy"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    struct npy_file file;
    struct failure failure;
    assert_int_equal(npy_open(in_folder("a.npy"), &file, &failure), STATUS_OK);
    assert_memory_equal(file.data, new, sizeof new);
    npy_close(&file);
}

static void places_that_cannot_be_written_say_so(void **state)
{
    (void)state;
    struct output_file output;
    struct failure failure;
    assert_int_equal(output_create(in_folder("missing/a.npy"), &output, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "missing/a.npy"));
    assert_int_equal(output_create(folder, &output, &failure), STATUS_FILE);
    if (access("/dev/full", W_OK) == 0) {
        const struct npy_header header = {.type = NPY_UINT16, .dimensions = 1, .shape = {1}};
        const uint16_t data = 0;
        assert_int_equal(output_create("/dev/full", &output, &failure), STATUS_OK);
        assert_int_equal(npy_write(&output, &header, &data, &failure), STATUS_FILE);
        assert_non_null(strstr(failure.text, "/dev/full"));
        output_discard(&output);
        assert_int_equal(access("/dev/full", W_OK), 0);
    }
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    struct npy_file file;
    struct failure failure;
    assert_int_equal(npy_open(in_folder("absent.npy"), &file, &failure), STATUS_FILE);
    assert_int_equal(npy_open(folder, &file, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "regular file"));
    fclose(fopen(in_folder("a.npy"), "wb"));
    assert_int_equal(npy_open(in_folder("a.npy"), &file, &failure), STATUS_FILE);
    assert_non_null(strstr(failure.text, "empty"));
    npy_close(&file); /* nothing to close is nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_and_type_is_read),
        cmocka_unit_test(other_writers_forms_are_read),
        cmocka_unit_test(empty_lengths_need_no_data),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(flipped_bytes_do_no_harm),
        cmocka_unit_test(wrong_arrays_are_refused_with_the_reason),
        cmocka_unit_test(foreign_files_are_refused),
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(unaligned_data_is_aligned, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_discarded_output_leaves_what_was_there, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_link_stays_and_its_target_is_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(places_that_cannot_be_written_say_so, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
