/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLA_CACHE_PAGES_H
#define CLA_CACHE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Which pages of a cache of keys hold which keys: numbers alone. Sequences share pages, which are counted, and
 * all layers of a sequence have the same ones. */

struct cla_page_list {
    int32_t *numbers;
    int64_t count, room;
};

struct cla_cache_pages {
    int64_t page_keys, layers, sequences;
    int64_t most;                /* pages that there may be */
    int64_t *lengths;            /* [layers, sequences]: keys */
    struct cla_page_list *lists; /* [sequences] */
    int64_t *references;         /* of each page that has ever been taken: how many sequences have it; 0: it is free */
    int64_t pages, room;         /* how many these are */
    int64_t used;                /* how many of them are not free */
};

/* False where memory is short, here and below. `pages` is all zero before, and to be finished in either case. */
bool cla_cache_pages_init(struct cla_cache_pages *pages, int64_t page_keys, int64_t layers, int64_t sequences,
                          int64_t most);
void cla_cache_pages_finish(struct cla_cache_pages *pages);

int64_t *cla_cache_length(const struct cla_cache_pages *pages, int64_t layer, int64_t sequence);

/* The longest layer of a sequence. */
int64_t cla_cache_longest(const struct cla_cache_pages *pages, int64_t sequence);

/* The first place in the sequence's list, from that of key `from` on, where a page is to be taken before keys `from` to
 * `to` - 1 are written: one that the list lacks, or one that is shared. -1: none. */
int64_t cla_cache_pages_next(const struct cla_cache_pages *pages, int64_t sequence, int64_t from, int64_t to);

/* Takes a page that nobody has, the free one of the smallest number; -1: memory is short, or there are no more. */
int32_t cla_cache_pages_take(struct cla_cache_pages *pages);

/* Of those who have a page one gives it back. */
void cla_cache_pages_leave(struct cla_cache_pages *pages, int32_t number);

/* Makes a page that was taken the one at this place, in the place of what was there; gives the page back where memory
 * is short. */
bool cla_cache_pages_put(struct cla_cache_pages *pages, int64_t sequence, int64_t place, int32_t number);

/* For what comes from a file: there are pages 0 to count - 1, which nobody has yet; and page `number`, one of them, is
 * the next one of a sequence. */
bool cla_cache_pages_know(struct cla_cache_pages *pages, int64_t count);
bool cla_cache_pages_share(struct cla_cache_pages *pages, int64_t sequence, int32_t number);

/* What keys from `length` on were in is given back. */
void cla_cache_pages_truncate(struct cla_cache_pages *pages, int64_t sequence, int64_t length);

/* `to` becomes the first `length` keys of `from`, which it shares; what it was is given back. */
bool cla_cache_pages_fork(struct cla_cache_pages *pages, int64_t from, int64_t to, int64_t length);

#endif
