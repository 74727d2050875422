/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/visits.h"
#include "plan/checked.h"
#include "plan/types.h"
#include <string.h>

enum { ALIGNMENT = 64 };

/* Keys that a column stands for; 0: columns have nothing to do with keys. */
static int64_t keys_each(const struct cla_job *job, int which)
{
    if (which == CLA_BLOCK_MASK)
        return job->problem->block_kv;
    return which == CLA_BIAS || which == CLA_MASK || which == CLA_BIAS_GRAD;
}

/* Whatever this rank itself has given: one without rows has given nothing, and of LSE, m and l each gives its own
 * choice. */
static struct cla_array array_of(const struct cla_job *job, int which)
{
    struct cla_array array = job->arrays[which];
    if (which >= CLA_LSE && which <= CLA_L)
        array = (struct cla_array){
            .sizes = {cla_job_batch(job), job->shape.heads, 0, 1}, .element_bytes = sizeof(float), .rows_each = 1};
    if (which == CLA_BIAS_GRAD)
        array = (struct cla_array){
            .sizes = job->arrays[CLA_BIAS].sizes, .element_bytes = cla_size_of(job->problem, which), .rows_each = 1};
    return array;
}

static bool comes_home(int which)
{
    return which == CLA_D_Q || which == CLA_BIAS_GRAD;
}

static bool goes_along(const struct cla_job *job, int which)
{
    if (which == CLA_K || which == CLA_V || which == CLA_D_K || which == CLA_D_V || comes_home(which))
        return false;
    if (which == CLA_O || (which >= CLA_LSE && which <= CLA_L))
        return job->problem->pass == CLATTN_BACKWARD;
    return job->arrays[which].rows_each != 0;
}

void cla_given_of_job(const struct cla_job *job, uint8_t given[CLA_GIVEN])
{
    memset(given, 0, CLA_GIVEN);
    for (int i = 0; i < CLA_OPERANDS; i++) {
        struct cla_layout layout;
        struct cla_error ignored; /* layouts have been resolved before */
        if (!job->arrays[i].data || !(goes_along(job, i) || comes_home(i)) || cla_job_layout(job, i, &layout, &ignored))
            continue;
        given[i] = (uint8_t)(CLA_IS_GIVEN | (layout.batch ? CLA_HAS_BATCH : 0) | (layout.head ? CLA_HAS_HEAD : 0) |
                             (layout.row ? CLA_HAS_ROW : 0) | (layout.column ? CLA_HAS_COLUMN : 0));
    }
}

static int64_t kept(uint8_t given, enum cla_given dimension, int64_t count)
{
    return given & dimension ? count : cla_smaller(count, 1);
}

/* What of an operand there is for the run, without regard to keys. */
static struct cla_sizes sizes_of(const struct cla_visit *visit, int which)
{
    const struct cla_array array = array_of(visit->job, which);
    const uint8_t given = visit->ring->given[visit->from][which];
    const int64_t rows = visit->ring->rows[visit->from].count[visit->run];
    return (struct cla_sizes){kept(given, CLA_HAS_BATCH, array.sizes.batch),
                              kept(given, CLA_HAS_HEAD, array.sizes.heads),
                              kept(given, CLA_HAS_ROW, cla_ceil_div(rows, array.rows_each ? array.rows_each : 1)),
                              kept(given, CLA_HAS_COLUMN, array.sizes.columns)};
}

struct cla_array cla_visit_array(const struct cla_visit *visit, int which)
{
    struct cla_array array = array_of(visit->job, which);
    const uint8_t given = visit->ring->given[visit->from][which];
    const struct cla_sizes sizes = sizes_of(visit, which);
    struct cla_layout layout = cla_layout_dense(sizes.heads, sizes.rows, sizes.columns);
    layout.batch = given & CLA_HAS_BATCH ? layout.batch : 0;
    layout.head = given & CLA_HAS_HEAD ? layout.head : 0;
    layout.row = given & CLA_HAS_ROW ? layout.row : 0;
    layout.column = given & CLA_HAS_COLUMN ? layout.column : 0;
    array.data = NULL;
    array.layout = cla_layout_given(&layout);
    array.sizes.rows =
        cla_ceil_div(visit->ring->rows[visit->from].count[visit->run], array.rows_each ? array.rows_each : 1);
    array.output = array.sum = comes_home(which);
    if (array.output)
        array.sizes = sizes; /* of a gradient that is a sum */
    return array;
}

static struct cla_visit_piece state_piece(const struct cla_visit *visit)
{
    const struct clattn_shape shape = cla_run_shape(visit->job, visit->ring->rows[visit->from].count[visit->run]);
    struct cla_state_places places = {0}; /* no more than memory: the rank that has the rows has such a state */
    struct cla_visit_piece piece = {.which = CLA_STATE, .element_bytes = sizeof(float)};
    if (cla_states_place(visit->job->problem->d_v, &shape, 1, &places))
        piece.sizes = (struct cla_sizes){1, 1, 1, places.end};
    return piece;
}

/* Of which an operand has two where its columns are of keys. */
static struct cla_visit_piece piece_of(const struct cla_visit *visit, int which, int keys)
{
    const int64_t each = keys_each(visit->job, which);
    const uint8_t given = visit->ring->given[visit->from][which];
    struct cla_visit_piece piece = {.which = which, .element_bytes = array_of(visit->job, which).element_bytes};
    if (which == CLA_STATE)
        return keys ? piece : state_piece(visit);
    if (!(given & CLA_IS_GIVEN))
        return piece;
    if (each && (given & CLA_HAS_COLUMN)) {
        const struct clattn_ring_part *part = &visit->ring->keys[visit->to];
        piece.of_keys = true;
        piece.sizes = sizes_of(visit, which);
        piece.column = part->first[keys] / each;
        piece.sizes.columns =
            part->count[keys] ? cla_ceil_div(part->first[keys] + part->count[keys], each) - piece.column : 0;
    } else if (!keys)
        piece.sizes = sizes_of(visit, which);
    return piece;
}

static bool belongs(const struct cla_visit *visit, int which)
{
    if (!visit->home)
        return goes_along(visit->job, which);
    return visit->job->problem->pass == CLATTN_BACKWARD ? comes_home(which) : which == CLA_STATE;
}

bool cla_visit_next(const struct cla_visit *visit, struct cla_visit_piece *piece)
{
    const uint64_t end = piece->number < 0 ? 0 : piece->offset + piece->bytes;
    for (int number = piece->number + 1; number < CLA_OPERANDS * CLA_RUNS; number++) {
        const int which = number / CLA_RUNS;
        if (!belongs(visit, which))
            continue;
        *piece = piece_of(visit, which, number % CLA_RUNS);
        piece->number = number;
        piece->offset = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        piece->bytes = (uint64_t)piece->sizes.batch * (uint64_t)piece->sizes.heads * (uint64_t)piece->sizes.rows *
                       (uint64_t)piece->sizes.columns * (uint64_t)piece->element_bytes;
        if (piece->bytes)
            return true;
    }
    return false;
}

bool cla_rows_visit(const clattn_ring *ring, const struct cla_job *job, int64_t from, int run, int64_t to)
{
    const struct clattn_ring_part *rows = &ring->rows[from], *keys = &ring->keys[to];
    for (int i = 0; i < CLA_RUNS; i++)
        if (cla_runs_meet(&job->meeting, rows->first[run], rows->count[run], keys->first[i], keys->count[i]))
            return true;
    return false;
}

uint64_t cla_visit_bytes(const struct cla_visit *visit)
{
    struct cla_visit_piece piece = {.number = -1};
    uint64_t bytes = 0;
    if (!cla_rows_visit(visit->ring, visit->job, visit->from, visit->run, visit->to))
        return 0;
    while (cla_visit_next(visit, &piece))
        bytes = piece.offset + piece.bytes;
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

uint64_t cla_rows_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t from, int run, int64_t to)
{
    const struct cla_visit visit = {ring, job, from, run, to, false};
    return cla_visit_bytes(&visit);
}

uint64_t cla_visit_at(const struct cla_visit *visit)
{
    struct cla_visit before = *visit;
    uint64_t at = 0;
    for (before.run = 0; before.run < visit->run; before.run++)
        at += cla_visit_bytes(&before);
    return at;
}

uint64_t cla_visits_bytes(const clattn_ring *ring, const struct cla_job *job, int64_t from, int64_t to, bool home)
{
    const struct cla_visit behind = {ring, job, from, CLA_RUNS, to, home};
    return cla_visit_at(&behind);
}
