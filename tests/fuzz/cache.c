/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A file of a cache of keys, and what is then done with the cache. The first byte says whether the checksum is mended,
 * so that what lies behind it is met.
 */
#include "fuzz/fuzz.h"
#include "plan/binary_format.h"
#include "plan/cache_file.h"

enum { HEADER = 40, PAGE_KEYS = 2, LAYERS = 2, SEQUENCES = 3, MOST = 6, PAGE_BYTES = 4 };

static void check(const struct cla_cache_pages *pages)
{
    int64_t references = 0, listed = 0, used = 0;
    for (int64_t i = 0; i < pages->pages; i++) {
        references += pages->references[i];
        used += pages->references[i] > 0;
    }
    for (int64_t i = 0; i < SEQUENCES; i++) {
        const struct cla_page_list *list = &pages->lists[i];
        FUZZ_REQUIRE(list->count * PAGE_KEYS >= cla_cache_longest(pages, i));
        FUZZ_REQUIRE((list->count - 1) * PAGE_KEYS < cla_cache_longest(pages, i) || !list->count);
        for (int64_t place = 0; place < list->count; place++)
            FUZZ_REQUIRE(list->numbers[place] >= 0 && list->numbers[place] < pages->pages);
        listed += list->count;
    }
    FUZZ_REQUIRE(references == listed && used == pages->used && pages->pages <= MOST);
}

static void use(struct cla_cache_pages *pages)
{
    check(pages);
    FUZZ_REQUIRE(cla_cache_pages_fork(pages, 0, 1, 3));
    check(pages);
    const int32_t number = cla_cache_pages_take(pages);
    const int64_t place = cla_cache_pages_next(pages, 1, 0, cla_cache_longest(pages, 1));
    if (number >= 0 && place >= 0)
        FUZZ_REQUIRE(cla_cache_pages_put(pages, 1, place, number));
    else if (number >= 0)
        cla_cache_pages_leave(pages, number);
    check(pages);
    for (int64_t i = 0; i < SEQUENCES; i++)
        cla_cache_pages_truncate(pages, i, i);
    check(pages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cla_cache_pages pages = {0};
    struct cla_error error;
    const unsigned char *elements = NULL;
    if (!size)
        return 0;
    const bool mend = data[0] & 1;
    unsigned char *file = fuzz_exact(data + 1, --size);
    if (mend && size >= HEADER)
        cla_binary_seal(file, size);
    FUZZ_REQUIRE(cla_cache_pages_init(&pages, PAGE_KEYS, LAYERS, SEQUENCES, MOST));
    if (!cla_cache_file_take("file", file, size, "id", PAGE_BYTES, &pages, &elements, &error)) {
        FUZZ_REQUIRE(elements >= file && elements + pages.pages * LAYERS * PAGE_BYTES == file + size);
        use(&pages);
    }
    cla_cache_pages_finish(&pages);
    fuzz_release(file, size);
    return 0;
}
