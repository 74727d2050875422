/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/cache_pages.h"
#include "plan/checked.h"
#include <stdlib.h>
#include <string.h>

bool cla_cache_pages_init(struct cla_cache_pages *pages, int64_t page_keys, int64_t layers, int64_t sequences,
                          int64_t most)
{
    pages->page_keys = page_keys;
    pages->layers = layers;
    pages->sequences = sequences;
    pages->most = most;
    pages->lengths = calloc((size_t)(layers * sequences), sizeof *pages->lengths);
    pages->lists = calloc((size_t)sequences, sizeof *pages->lists);
    return pages->lengths && pages->lists;
}

void cla_cache_pages_finish(struct cla_cache_pages *pages)
{
    for (int64_t i = 0; pages->lists && i < pages->sequences; i++)
        free(pages->lists[i].numbers);
    free(pages->lists);
    free(pages->lengths);
    free(pages->references);
    *pages = (struct cla_cache_pages){0};
}

int64_t *cla_cache_length(const struct cla_cache_pages *pages, int64_t layer, int64_t sequence)
{
    return &pages->lengths[layer * pages->sequences + sequence];
}

int64_t cla_cache_longest(const struct cla_cache_pages *pages, int64_t sequence)
{
    int64_t longest = 0;
    for (int64_t layer = 0; layer < pages->layers; layer++) {
        const int64_t length = *cla_cache_length(pages, layer, sequence);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static bool is_own(const struct cla_cache_pages *pages, int64_t sequence, int64_t place)
{
    const struct cla_page_list *list = &pages->lists[sequence];
    return place < list->count && pages->references[list->numbers[place]] == 1;
}

int64_t cla_cache_pages_next(const struct cla_cache_pages *pages, int64_t sequence, int64_t from, int64_t to)
{
    for (int64_t place = from / pages->page_keys; place < cla_ceil_div(to, pages->page_keys); place++)
        if (!is_own(pages, sequence, place))
            return place;
    return -1;
}

static bool grow(void **block, int64_t *room, int64_t wanted, size_t bytes)
{
    if (wanted <= *room)
        return true;
    const int64_t more = *room ? 2 * *room : 16, count = more > wanted ? more : wanted;
    void *grown = realloc(*block, (size_t)count * bytes);
    if (!grown)
        return false;
    memset((char *)grown + (size_t)*room * bytes, 0, (size_t)(count - *room) * bytes);
    *block = grown;
    *room = count;
    return true;
}

int32_t cla_cache_pages_take(struct cla_cache_pages *pages)
{
    int64_t number = 0;
    if (pages->used == pages->most)
        return -1;
    if (pages->used == pages->pages)
        number = pages->pages;
    while (number < pages->pages && pages->references[number])
        number++;
    void *references = pages->references;
    if (!grow(&references, &pages->room, number + 1, sizeof *pages->references))
        return -1;
    pages->references = references;
    pages->references[number] = 1;
    pages->used++;
    if (number == pages->pages)
        pages->pages++;
    return (int32_t)number;
}

void cla_cache_pages_leave(struct cla_cache_pages *pages, int32_t number)
{
    if (--pages->references[number] == 0)
        pages->used--;
}

bool cla_cache_pages_put(struct cla_cache_pages *pages, int64_t sequence, int64_t place, int32_t number)
{
    struct cla_page_list *list = &pages->lists[sequence];
    void *numbers = list->numbers;
    if (!grow(&numbers, &list->room, place + 1, sizeof *list->numbers)) {
        cla_cache_pages_leave(pages, number);
        return false;
    }
    list->numbers = numbers;
    if (place < list->count)
        cla_cache_pages_leave(pages, list->numbers[place]);
    else
        list->count = place + 1;
    list->numbers[place] = number;
    return true;
}

bool cla_cache_pages_know(struct cla_cache_pages *pages, int64_t count)
{
    void *references = pages->references;
    if (!grow(&references, &pages->room, count, sizeof *pages->references))
        return false;
    pages->references = references;
    pages->pages = count;
    return true;
}

bool cla_cache_pages_share(struct cla_cache_pages *pages, int64_t sequence, int32_t number)
{
    struct cla_page_list *list = &pages->lists[sequence];
    void *numbers = list->numbers;
    if (!grow(&numbers, &list->room, list->count + 1, sizeof *list->numbers))
        return false;
    list->numbers = numbers;
    list->numbers[list->count++] = number;
    pages->used += !pages->references[number]++;
    return true;
}

void cla_cache_pages_truncate(struct cla_cache_pages *pages, int64_t sequence, int64_t length)
{
    struct cla_page_list *list = &pages->lists[sequence];
    const int64_t kept = cla_ceil_div(length, pages->page_keys);
    for (int64_t layer = 0; layer < pages->layers; layer++) {
        int64_t *of_layer = cla_cache_length(pages, layer, sequence);
        *of_layer = *of_layer < length ? *of_layer : length;
    }
    while (list->count > kept)
        cla_cache_pages_leave(pages, list->numbers[--list->count]);
}

bool cla_cache_pages_fork(struct cla_cache_pages *pages, int64_t from, int64_t to, int64_t length)
{
    const struct cla_page_list *source = &pages->lists[from];
    struct cla_page_list *list = &pages->lists[to];
    const int64_t longest = cla_cache_longest(pages, from), keys = length < longest ? length : longest;
    const int64_t count = cla_ceil_div(keys, pages->page_keys);
    void *numbers = list->numbers;
    if (!grow(&numbers, &list->room, count, sizeof *list->numbers))
        return false;
    list->numbers = numbers;
    cla_cache_pages_truncate(pages, to, 0);
    for (int64_t i = 0; i < count; i++) {
        list->numbers[i] = source->numbers[i];
        pages->references[source->numbers[i]]++;
    }
    list->count = count;
    for (int64_t layer = 0; layer < pages->layers; layer++) {
        const int64_t of_layer = *cla_cache_length(pages, layer, from);
        *cla_cache_length(pages, layer, to) = of_layer < keys ? of_layer : keys;
    }
    return true;
}
