/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/hash.h"
#include "plan/problem_members.h"
#include "ring/job.h"
#include "ring/round.h"
#include <stdio.h>
#include <string.h>

/* What a number of a report stands for. */
enum kind { INTEGER, FLOAT, CONTENT };

struct fact {
    const char *name;
    enum kind kind;
    int64_t value;
};

static struct fact integer(const char *name, int64_t value)
{
    return (struct fact){name, INTEGER, value};
}

static struct fact real(const char *name, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (struct fact){name, FLOAT, bits};
}

static struct fact content(const char *name, const void *data, size_t bytes)
{
    return (struct fact){name, CONTENT, data ? (int64_t)(cla_hash_bytes(data, bytes).low | 1) : 0};
}

static int problem_facts(const struct clattn_problem *problem, int64_t passing, struct fact facts[CLA_FACTS])
{
    int count = 0;
    _Static_assert((int)CLA_PROBLEM_MEMBERS < (int)CLA_FACTS, "they fit");
    for (int i = 0; i < CLA_PROBLEM_MEMBERS; i++) {
        const struct cla_problem_member *member = &cla_problem_members[i];
        if (!member->own)
            facts[count++] =
                (struct fact){member->path, member->real ? FLOAT : INTEGER, cla_problem_member_of(problem, member)};
    }
    facts[count++] = integer("params->passing", passing);
    return count;
}

static struct fact number_fact(const struct cla_feature_number *row, const struct clattn_host_score_args *score)
{
    const void *at = (const char *)score + row->array;
    float value;
    int64_t number = 0;
    if (row->type == CLA_NUMBER_FLOAT) {
        memcpy(&value, at, sizeof value);
        return real(row->name, value);
    }
    memcpy(&number, at, row->type == CLA_NUMBER_UINT32 ? sizeof(uint32_t) : sizeof number);
    return integer(row->name, number);
}

/* The elements of a small array that all ranks have: of the batch, of heads or of both. */
static struct fact array_fact(const struct cla_job *job, int number, const char *name)
{
    const struct cla_array *array = &job->arrays[CLA_SCORE + number];
    struct cla_layout layout;
    struct cla_hash hash = {0};
    if (!array->data || array->rows_each || cla_job_layout(job, CLA_SCORE + number, &layout, NULL))
        return content(name, NULL, 0);
    for (int64_t b = 0; b < array->sizes.batch; b++)
        for (int64_t h = 0; h < array->sizes.heads; h++)
            for (int64_t i = 0; i < array->sizes.rows; i++) {
                const int64_t at = layout.offset + b * layout.batch + h * layout.head + i * layout.row;
                uint64_t both[2] = {hash.low, 0};
                memcpy(&both[1], (const char *)array->data + (size_t)at * 4, 4);
                hash = cla_hash_bytes(both, sizeof both);
            }
    return content(name, &hash.low, sizeof hash.low);
}

static int job_facts(const struct cla_job *job, struct fact facts[CLA_FACTS])
{
    const struct clattn_shape *shape = &job->shape;
    const struct fact shapes[] = {integer("shape.batch", shape->batch),
                                  integer("shape.heads", shape->heads),
                                  integer("shape.kv_heads", shape->kv_heads),
                                  integer("shape.n_q", shape->n_q),
                                  integer("shape.n_kv", shape->n_kv),
                                  integer("whether d_k is given", job->arrays[CLA_D_K].data != NULL),
                                  integer("whether d_v is given", job->arrays[CLA_D_V].data != NULL),
                                  integer("whether d_sinks is given", job->arrays[CLA_SINKS_GRAD].data != NULL)};
    const struct cla_feature *of;
    const struct cla_feature_tensor *row = NULL;
    const struct cla_feature_number *number;
    int count = sizeof shapes / sizeof *shapes;
    _Static_assert(sizeof shapes / sizeof *shapes + CLA_SCORE_TENSORS + CLA_SCORE_NUMBERS <= CLA_FACTS, "they fit");
    memcpy(facts, shapes, sizeof shapes);
    for (int i = 0; (number = cla_feature_number_after(i ? number : NULL, &of)); i++)
        facts[count++] = number_fact(number, job->score);
    for (int i = 0; (row = cla_feature_tensor_after(row, &of)); i++)
        facts[count++] = array_fact(job, i, row->path);
    return count;
}

static void put(const struct fact *facts, int count, int64_t *values)
{
    for (int i = 0; i < count; i++)
        values[i] = facts[i].value;
}

void cla_facts_of_problem(const struct clattn_problem *problem, int64_t passing, int64_t *values)
{
    struct fact facts[CLA_FACTS];
    put(facts, problem_facts(problem, passing, facts), values);
}

void cla_facts_of_job(const struct cla_job *job, int64_t *values)
{
    struct fact facts[CLA_FACTS];
    put(facts, job_facts(job, facts), values);
}

static void describe(const struct fact *fact, int64_t value, char text[32])
{
    const uint32_t bits = (uint32_t)value;
    float real_value;
    memcpy(&real_value, &bits, sizeof real_value);
    if (fact->kind == FLOAT)
        snprintf(text, 32, "%.9g", (double)real_value);
    else if (fact->kind == CONTENT)
        snprintf(text, 32, value ? "other numbers" : "NULL");
    else
        snprintf(text, 32, "%lld", (long long)value);
}

static clattn_status compare_facts(const struct fact *facts, int count, const int64_t *mine, const int64_t *others,
                                   int other_rank, struct cla_error *error)
{
    for (int i = 0; i < count; i++) {
        char first[32], second[32];
        if (mine[i] == others[i])
            continue;
        describe(&facts[i], mine[i], first);
        describe(&facts[i], others[i], second);
        return cla_fail(error, CLATTN_INVALID_ARGUMENT, "%s is %s on rank 0 and %s on rank %d: all ranks give the same",
                        facts[i].name, first, second, other_rank);
    }
    return CLATTN_SUCCESS;
}

/* Names do not depend on the values. */
clattn_status cla_facts_compare(bool of_job, const int64_t *facts, const int64_t *others, int other_rank,
                                struct cla_error *error)
{
    static const struct clattn_problem no_problem;
    static const struct clattn_host_score_args no_score;
    const struct cla_job no_job = {.score = &no_score};
    struct fact names[CLA_FACTS];
    const int count = of_job ? job_facts(&no_job, names) : problem_facts(&no_problem, 0, names);
    return compare_facts(names, count, facts, others, other_rank, error);
}
