/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A cache of keys that is saved and loaded gives the same bits; files that are cut, damaged or of another cache are
 * refused, and what the cache held stays. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "plan/binary_format.h"
#include "random.h"
#include "support/device.h"
#include "support/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 2, SEQUENCES = 3, HEADS = 2, D = 8, PAGE_KEYS = 4, MOST_ROWS = 11 };

static struct test_device device;
static struct random chance;
static char folder[] = "/tmp/clattn-test-cache-XXXXXX", path[64], other_path[64];

static clattn_host_cache *make(int sequences, int d, int64_t page_keys)
{
    const struct clattn_problem problem = {
        .d = d, .k_type = CLATTN_AS_FP16, .v_type = CLATTN_AS_FP16, .page_keys = page_keys};
    const struct clattn_host_cache_params params = {
        .context = device.clattn, .problem = &problem, .layers = LAYERS, .sequences = sequences, .kv_heads = HEADS};
    clattn_host_cache *cache = NULL;
    assert_true(test_succeeded(clattn_host_cache_create(&cache, &params), "clattn_host_cache_create"));
    return cache;
}

static void append(clattn_host_cache *cache, int layer, int64_t sequence, int rows)
{
    float k[MOST_ROWS * HEADS * D], v[MOST_ROWS * HEADS * D];
    random_normal(&chance, 1.0, k, sizeof k / sizeof *k);
    random_normal(&chance, 1.0, v, sizeof v / sizeof *v);
    const struct clattn_host_cache_args args = {
        .shape = {.batch = 1, .n_q = rows}, .layer = layer, .sequences = &sequence, .k = k, .v = v};
    assert_true(test_succeeded(clattn_host_cache_append(cache, &args), "clattn_host_cache_append"));
}

/* What all sequences give in all layers. */
struct results {
    float o[LAYERS][SEQUENCES][HEADS * D];
};

static struct results attend(clattn_host_cache *cache)
{
    struct results results = {0};
    float q[SEQUENCES * HEADS * D];
    for (int i = 0; i < SEQUENCES * HEADS * D; i++)
        q[i] = (float)(i % 7) - 3.0f;
    for (int layer = 0; layer < LAYERS; layer++) {
        const struct clattn_host_cache_args args = {
            .shape = {.batch = SEQUENCES, .heads = HEADS, .n_q = 1}, .layer = layer, .q = q, .o = results.o[layer]};
        assert_true(test_succeeded(clattn_host_cache_forward(cache, &args), "clattn_host_cache_forward"));
    }
    return results;
}

/* Sequences of 11 and 7 keys that share some, and an empty one. */
static clattn_host_cache *make_filled(void)
{
    clattn_host_cache *cache = make(SEQUENCES, D, PAGE_KEYS);
    for (int layer = 0; layer < LAYERS; layer++)
        append(cache, layer, 0, MOST_ROWS);
    assert_int_equal(clattn_host_cache_fork(cache, 0, 1, 5), CLATTN_SUCCESS);
    for (int layer = 0; layer < LAYERS; layer++)
        append(cache, layer, 1, 2);
    return cache;
}

static unsigned char *read_whole(const char *name, size_t *size)
{
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    unsigned char *data = malloc(1 << 20);
    assert_non_null(data);
    *size = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

static void write_whole(const char *name, const unsigned char *data, size_t size)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

static void what_is_loaded_is_what_was_saved(void **state)
{
    (void)state;
    clattn_host_cache *cache = make_filled(), *copy = make(SEQUENCES, D, PAGE_KEYS);
    struct clattn_host_cache_info info, copied;
    size_t size = 0, again_size = 0;
    const struct results wanted = attend(cache);
    append(copy, 0, 2, 3); /* what it held goes */
    assert_true(test_succeeded(clattn_host_cache_save(cache, path), "clattn_host_cache_save"));
    assert_true(test_succeeded(clattn_host_cache_load(copy, path), "clattn_host_cache_load"));
    const struct results loaded = attend(copy);
    assert_memory_equal(&wanted, &loaded, sizeof wanted);
    assert_int_equal(clattn_host_cache_get_info(cache, &info), CLATTN_SUCCESS);
    assert_int_equal(clattn_host_cache_get_info(copy, &copied), CLATTN_SUCCESS);
    assert_int_equal(info.pages, 4); /* three, and one that was copied */
    assert_int_equal(copied.pages, info.pages);
    assert_int_equal(clattn_host_cache_truncate(cache, 2, 0), CLATTN_SUCCESS);
    assert_int_equal(clattn_host_cache_save(copy, other_path), CLATTN_SUCCESS);
    unsigned char *first = read_whole(path, &size), *again = read_whole(other_path, &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(first, again, size);
    const struct random course = chance; /* both go on in the same way */
    append(cache, 1, 1, 3);
    chance = course;
    append(copy, 1, 1, 3);
    const struct results went_on = attend(cache), copy_went_on = attend(copy);
    assert_memory_equal(&went_on, &copy_went_on, sizeof went_on);
    free(first);
    free(again);
    clattn_host_cache_destroy(&cache);
    clattn_host_cache_destroy(&copy);
}

static void refuses(clattn_host_cache *cache, const char *name, clattn_status status, const char *words)
{
    const clattn_status got = clattn_host_cache_load(cache, name);
    if (got != status || !strstr(clattn_error_message(), words))
        fail_msg("%s, \"%s\": not %s with \"%s\"", clattn_status_name(got), clattn_error_message(),
                 clattn_status_name(status), words);
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    clattn_host_cache *cache = make_filled();
    size_t size = 0;
    const struct results before = attend(cache);
    assert_int_equal(clattn_host_cache_save(cache, path), CLATTN_SUCCESS);
    unsigned char *data = read_whole(path, &size);
    for (size_t length = 0; length < size; length += length < 64 ? 1 : 97) {
        write_whole(other_path, data, length);
        refuses(cache, other_path, CLATTN_FILE_DAMAGED, length < 40 ? "is no file that" : "longer or shorter");
    }
    for (size_t at = 40; at < size; at += 13) {
        data[at] ^= 4;
        write_whole(other_path, data, size);
        refuses(cache, other_path, CLATTN_FILE_DAMAGED, "another checksum");
        data[at] ^= 4;
    }
    data[8] = 9;
    write_whole(other_path, data, size);
    refuses(cache, other_path, CLATTN_FILE_DAMAGED, "of another version");
    refuses(cache, folder, CLATTN_FILE_FAILED, "cannot be read");
    refuses(cache, "/nonexistent/file", CLATTN_FILE_FAILED, "cannot be read: No such file");
    refuses(cache, NULL, CLATTN_INVALID_ARGUMENT, "path is NULL");
    refuses(cache, "", CLATTN_INVALID_ARGUMENT, "path is empty");
    assert_int_equal(clattn_host_cache_save(cache, "/nonexistent/file"), CLATTN_FILE_FAILED);
    assert_int_equal(clattn_host_cache_save(NULL, path), CLATTN_INVALID_ARGUMENT);
    const struct results after = attend(cache);
    assert_memory_equal(&before, &after, sizeof before);
    free(data);
    clattn_host_cache_destroy(&cache);
}

/* With a right checksum: what the file says is judged. */
static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at; /* in the payload */
        unsigned char value;
        clattn_status status;
        const char *words;
    } lies[] = {{0, 4, CLATTN_TOO_LARGE, "has 4 sequences, and this cache 3"},
                {7, 1, CLATTN_FILE_DAMAGED, "no number of sequences"},
                {8, 5, CLATTN_FILE_DAMAGED, "lacks the elements of its pages"},
                {8, 3, CLATTN_FILE_DAMAGED, "has the number of a page that is not in it"},
                {16 + 7, 1, CLATTN_FILE_DAMAGED, "has a length that cannot be"},
                {16 + 8, 9, CLATTN_FILE_DAMAGED, "not in it"},
                {16 + 48, 4, CLATTN_FILE_DAMAGED, "has the number of a page that is not in it"}};
    clattn_host_cache *cache = make_filled();
    const struct results before = attend(cache);
    struct cla_binary_parts parts;
    size_t size = 0;
    assert_int_equal(clattn_host_cache_save(cache, path), CLATTN_SUCCESS);
    unsigned char *data = read_whole(path, &size);
    assert_int_equal(cla_binary_take_apart(data, size, &parts), CLA_BINARY_WHOLE);
    unsigned char *payload = data + (size - parts.payload_size);
    EACH (i, lies) {
        const unsigned char true_value = payload[lies[i].at];
        payload[lies[i].at] = lies[i].value;
        cla_binary_seal(data, size);
        write_whole(other_path, data, size);
        refuses(cache, other_path, lies[i].status, lies[i].words);
        payload[lies[i].at] = true_value;
    }
    const struct results after = attend(cache);
    assert_memory_equal(&before, &after, sizeof before);
    free(data);
    clattn_host_cache_destroy(&cache);
}

static void other_caches_refuse_it(void **state)
{
    (void)state;
    clattn_host_cache *cache = make_filled(), *fewer = make(1, D, PAGE_KEYS),
                      *wider = make(SEQUENCES, 2 * D, PAGE_KEYS), *longer = make(SEQUENCES, D, 8);
    assert_int_equal(clattn_host_cache_save(cache, path), CLATTN_SUCCESS);
    refuses(fewer, path, CLATTN_TOO_LARGE, "has 3 sequences, and this cache 1");
    refuses(wider, path, CLATTN_INVALID_ARGUMENT, "is of another cache: it says \"clattn cache of keys 1: layers 2");
    refuses(longer, path, CLATTN_INVALID_ARGUMENT, "page_keys 4, rotary_d 0, interleaved 0\", and this is");
    clattn_host_cache_destroy(&cache);
    clattn_host_cache_destroy(&fewer);
    clattn_host_cache_destroy(&wider);
    clattn_host_cache_destroy(&longer);
}

int main(void)
{
    chance.state = 9;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(other_path, sizeof other_path, "%s/b", folder);
    test_device_open(&device);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_loaded_is_what_was_saved), cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(files_that_lie_are_refused), cmocka_unit_test(other_caches_refuse_it)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    unlink(path);
    unlink(other_path);
    rmdir(folder);
    return failed;
}
