/* SPDX-License-Identifier: BSD-2-Clause */
#include "flow.h"
#include "json_out.h"
#include "table.h"
#include "verify/draw.h"
#include "verify/soak.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the report says of a skeleton, or of all. */
struct sums {
    int cases; /* that were done: all but the refused */
    int programs;
    int features[3]; /* cases with up to 5, up to 8, more */
    int masked;      /* backward passes in order with a block mask and a window */
    int blind;       /* where no row sees a key, so that all is 0 */
    int outcomes[SOAK_OUTCOMES];
    double share;
};

static bool is_masked(unsigned traits)
{
    const unsigned all = CLATTN_WINDOW | CLATTN_BLOCK_MASK | VERIFY_ORDERED;
    return (traits & all) == all;
}

static void add(struct sums *sums, const struct soak_record *record)
{
    const int features = verify_count_features(record->traits);
    sums->outcomes[record->outcome]++;
    if (record->outcome == SOAK_REFUSED)
        return;
    sums->cases++;
    sums->features[features > 8 ? 2 : features > 5]++;
    sums->masked += is_masked(record->traits);
    sums->blind += record->outcome == SOAK_OK && record->share <= 0.0;
    sums->share = fmax(sums->share, record->share);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Different programs of one skeleton, or (-1) of all; -1 without memory. */
static int count_programs(const struct soak_log *log, int skeleton)
{
    const char **keys = malloc((size_t)(log->count + 1) * sizeof *keys);
    int count = 0, different = 0;
    for (int i = 0; keys && i < log->count; i++) {
        const struct soak_record *record = &log->records[i];
        if (record->program[0] && (skeleton < 0 || record->skeleton == skeleton))
            keys[count++] = record->program;
    }
    if (keys)
        qsort(keys, (size_t)count, sizeof *keys, compare_texts);
    for (int i = 0; keys && i < count; i++)
        different += !i || strcmp(keys[i], keys[i - 1]) != 0;
    free(keys);
    return keys ? different : -1;
}

/* skeleton -1: all. */
static struct sums sum_up(const struct soak_log *log, int skeleton)
{
    struct sums sums = {.programs = count_programs(log, skeleton)};
    for (int i = 0; i < log->count; i++)
        if (skeleton < 0 || log->records[i].skeleton == skeleton)
            add(&sums, &log->records[i]);
    return sums;
}

static int count_failed(const struct sums *sums)
{
    int failed = 0;
    for (int i = 0; i < SOAK_OUTCOMES; i++)
        failed += soak_outcome_fails((enum soak_outcome)i) ? sums->outcomes[i] : 0;
    return failed;
}

void soak_reproducer(const struct soak *soak, const struct soak_log *log, const struct soak_record *record, char *text,
                     size_t size)
{
    snprintf(text, size, "clattn verify --device %d:%d --skeleton %s%s --case-seed %" PRIu64, soak->device.platform,
             soak->device.device, log->skeletons[record->skeleton],
             record->traits & VERIFY_UNORDERED ? " --unordered" : "", record->seed);
}

/* --- text */

/* Columns behind those of outcomes come first where room is short. */
enum { OUTCOMES_FROM = 8, COLUMNS = OUTCOMES_FROM + SOAK_OUTCOMES + 1 };

struct report_table {
    struct table_column columns[COLUMNS];
    bool shown[COLUMNS];
};

static void make_table(struct report_table *table)
{
    static const struct table_column first[OUTCOMES_FROM] = {{"", -24, 0},     {"cases", 6, 4}, {"programs", 8, 7},
                                                             {"3-5", 5, 8},    {"6-8", 5, 8},   {"9-12", 5, 8},
                                                             {"masked", 6, 9}, {"blind", 6, 9}};
    memcpy(table->columns, first, sizeof first);
    for (int i = 0; i < SOAK_OUTCOMES; i++) {
        const char *name = soak_outcome_name((enum soak_outcome)i);
        table->columns[OUTCOMES_FROM + i] =
            (struct table_column){name, (int)strlen(name) + 2, i == SOAK_REFUSED ? 5 : 0};
    }
    table->columns[COLUMNS - 1] = (struct table_column){"largest", 8, 6};
    table_fit(table->columns, COLUMNS, 0, stdout, table->shown);
}

static void print_row(const struct report_table *table, const char *name, const struct sums *s)
{
    const int numbers[OUTCOMES_FROM - 1] = {s->cases,       s->programs, s->features[0], s->features[1],
                                            s->features[2], s->masked,   s->blind};
    table_cells cells;
    snprintf(cells[0], sizeof cells[0], "%s", name);
    for (int i = 1; i < OUTCOMES_FROM; i++)
        snprintf(cells[i], sizeof cells[i], "%d", numbers[i - 1]);
    for (int i = 0; i < SOAK_OUTCOMES; i++)
        snprintf(cells[OUTCOMES_FROM + i], sizeof cells[0], "%d", s->outcomes[i]);
    snprintf(cells[COLUMNS - 1], sizeof cells[0], "%.0f %%", 100.0 * s->share);
    table_print(table->columns, COLUMNS, table->shown, cells, stdout);
    putchar('\n');
}

static void print_report(const struct soak *soak, const struct soak_log *log, const struct sums *all, double seconds)
{
    const int failed = count_failed(all);
    struct report_table table;
    make_table(&table);
    table_print_head(table.columns, COLUMNS, table.shown, stdout);
    putchar('\n');
    for (int i = 0; i < log->skeleton_count; i++) {
        const struct sums sums = sum_up(log, i);
        if (sums.cases || sums.outcomes[SOAK_REFUSED])
            print_row(&table, log->skeletons[i], &sums);
    }
    print_row(&table, "all", all);
    flow_text(
        stdout,
        "(3-5, 6-8, 9-12: cases with so many features; masked: backward in order with a block mask and a window;\n"
        "blind: no row sees a key; largest: error, of what is allowed)",
        0);
    flow(stdout, "%s: %d of %d cases failed; %d of them in this run, %.0f s; seed %" PRId64 "\ndevice %s, driver %s\n",
         failed ? "FAILED" : "passed", failed, all->cases, log->count - log->earlier, seconds, soak->seed,
         log->identity.device, log->identity.driver);
}

/* --- JSON */

static json_t *pack_sums(const char *name, const struct sums *s)
{
    json_t *row = json_pack("{s:s, s:i, s:i, s:{s:i, s:i, s:i}, s:i, s:i}", "skeleton", name, "cases", s->cases,
                            "programs", s->programs, "features", "3-5", s->features[0], "6-8", s->features[1], "9-12",
                            s->features[2], "in_order_with_block_mask_and_window", s->masked, "blind", s->blind);
    for (int i = 0; row && i < SOAK_OUTCOMES; i++)
        json_object_set_new(row, soak_outcome_name((enum soak_outcome)i), json_integer(s->outcomes[i]));
    if (row)
        json_object_set_new(row, "largest_error_share", json_measure(s->share));
    return row;
}

/* With the hash of the kernels' texts, so that it can be told whether they are still those. */
static json_t *pack_row(const struct soak_log *log, int skeleton, const struct sums *sums)
{
    json_t *row = pack_sums(log->skeletons[skeleton], sums);
    if (row)
        json_object_set_new(row, "kernels", json_text(log->kernels[skeleton]));
    return row;
}

static json_t *pack_failures(const struct soak *soak, const struct soak_log *log)
{
    json_t *failures = json_array();
    for (int i = 0; i < log->count; i++) {
        const struct soak_record *record = &log->records[i];
        char command[320];
        if (!soak_outcome_fails(record->outcome))
            continue;
        soak_reproducer(soak, log, record, command, sizeof command);
        json_array_append_new(failures,
                              json_pack("{s:s, s:o, s:o, s:o}", "outcome", soak_outcome_name(record->outcome), "name",
                                        json_text(record->name ? record->name : ""), "reason",
                                        json_text(record->text ? record->text : ""), "reproduce", json_text(command)));
    }
    return failures;
}

static json_t *pack_report(const struct soak *soak, const struct soak_log *log, const struct sums *all, double seconds)
{
    json_t *rows = json_array();
    for (int i = 0; i < log->skeleton_count; i++) {
        const struct sums sums = sum_up(log, i);
        if (sums.cases || sums.outcomes[SOAK_REFUSED])
            json_array_append_new(rows, pack_row(log, i, &sums));
    }
    return json_pack("{s:o, s:o, s:s, s:s, s:I, s:i, s:o, s:i, s:o, s:o, s:o}", "device",
                     json_text(log->identity.device), "driver", json_text(log->identity.driver), "library",
                     log->identity.library, "selection", "soak", "seed", (json_int_t)soak->seed, "new",
                     log->count - log->earlier, "seconds", json_measure(seconds), "failed", count_failed(all),
                     "skeletons", rows, "all", pack_sums("all", all), "failures", pack_failures(soak, log));
}

int soak_report(const struct soak *soak, const struct soak_log *log, double seconds, struct failure *failure)
{
    const struct sums all = sum_up(log, -1);
    int status = STATUS_OK;
    if (soak->json)
        status = json_print(pack_report(soak, log, &all, seconds), NULL, failure);
    else
        print_report(soak, log, &all, seconds);
    return status ? status : count_failed(&all) ? STATUS_MISMATCH : STATUS_OK;
}
