/* SPDX-License-Identifier: BSD-2-Clause */
#include "random.h"
#include "verify/case.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Laws of attention. They need no reference, so they hold a kernel to account where a reference could share its
 * mistake. Each runs the same plan twice or more and compares. */

struct law {
    const struct session *session;
    const clattn_plan *plan;
    const struct verify_case *item;
    struct random random;
    struct verify_data *data;
    double *expected; /* of O */
    struct verify_result *result;
};

static bool forward(const struct law *law)
{
    return verify_forward(law->session, law->plan, law->item, &law->item->problem, law->data, law->result);
}

/* Compares O with law->expected, allowing what the plain formula is off by on the same inputs. */
static bool compare(const struct law *law)
{
    const struct reference_problem *problem = &law->item->problem;
    const struct verify_data *data = law->data;
    const size_t count = reference_o_count(problem);
    float *naive = calloc(count + 1, sizeof *naive);
    bool good = naive && reference_naive(problem, data->q, data->k, data->v, naive);
    if (!good)
        verify_error(law->result, "no memory for the comparison");
    const struct reference_floor floor = reference_floor(problem, data->q, data->k, data->v, law->expected);
    good = good &&
           verify_close("o", data->o, law->expected, naive, count, (size_t)problem->d_v, 2.0 * floor.o, law->result);
    free(naive);
    return good;
}

static void remember(const struct law *law)
{
    for (size_t i = 0; i < reference_o_count(&law->item->problem); i++)
        law->expected[i] = (double)law->data->o[i];
}

/* Weights that sum to 1 leave a constant as it is. */
static bool constant_v(const struct law *law)
{
    const struct reference_problem *problem = &law->item->problem;
    const size_t d_v = (size_t)problem->d_v;
    for (size_t i = d_v; i < reference_v_count(problem); i++)
        law->data->v[i] = law->data->v[i % d_v];
    for (size_t i = 0; i < reference_o_count(problem); i++) {
        const int64_t row = (int64_t)(i / d_v) % problem->shape.n_q;
        const bool sees = reference_visible(problem->causal, problem->shape.n_q, problem->shape.n_kv, row) > 0;
        law->expected[i] = sees ? (double)law->data->v[i % d_v] : 0.0;
    }
    return forward(law) && compare(law);
}

static void swap_rows(float *a, float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float held = a[i];
        a[i] = b[i];
        b[i] = held;
    }
}

/* A sum does not know the order of its terms. */
static bool permuted_keys(struct law *law)
{
    const struct reference_problem *problem = &law->item->problem;
    const struct clattn_shape *shape = &problem->shape;
    const size_t d = (size_t)problem->d, d_v = (size_t)problem->d_v;
    if (!forward(law))
        return false;
    remember(law);
    for (int64_t head = 0; head < shape->batch * shape->kv_heads; head++) {
        for (int64_t j = shape->n_kv - 1; j > 0; j--) { /* Fisher and Yates */
            const size_t a = (size_t)(head * shape->n_kv + j);
            const size_t b = (size_t)(head * shape->n_kv + random_below(&law->random, j + 1));
            swap_rows(law->data->k + a * d, law->data->k + b * d, d);
            swap_rows(law->data->v + a * d_v, law->data->v + b * d_v, d_v);
        }
    }
    return forward(law) && compare(law);
}

/* Softmax does not know a constant that is added to all its inputs: here through one column of Q that is 1. */
static bool shifted_logits(const struct law *law)
{
    const struct reference_problem *problem = &law->item->problem;
    const size_t d = (size_t)problem->d;
    for (size_t i = d - 1; i < reference_q_count(problem); i += d)
        law->data->q[i] = 1.0f;
    for (size_t i = d - 1; i < reference_k_count(problem); i += d)
        law->data->k[i] = 0.0f;
    if (!forward(law))
        return false;
    remember(law);
    for (size_t i = d - 1; i < reference_k_count(problem); i += d)
        law->data->k[i] = 32.0f;
    return forward(law) && compare(law);
}

/* Copies keys first .. first + count - 1 of every head. */
static void take_keys(const struct clattn_shape *shape, const float *from, size_t d, int64_t first, int64_t count,
                      float *to)
{
    for (int64_t head = 0; head < shape->batch * shape->kv_heads; head++)
        memcpy(to + (size_t)(head * count) * d, from + (size_t)(head * shape->n_kv + first) * d,
               (size_t)count * d * sizeof *to);
}

/* Runs on some of the keys; `part` gets arrays of its own. */
static bool forward_part(const struct law *law, int64_t first, int64_t count, struct verify_data *part)
{
    struct reference_problem problem = law->item->problem;
    problem.shape.n_kv = count;
    if (!verify_data_create(&problem, false, part))
        return verify_error(law->result, "no memory for its arrays");
    memcpy(part->q, law->data->q, reference_q_count(&problem) * sizeof *part->q);
    take_keys(&law->item->problem.shape, law->data->k, (size_t)problem.d, first, count, part->k);
    take_keys(&law->item->problem.shape, law->data->v, (size_t)problem.d_v, first, count, part->v);
    return verify_forward(law->session, law->plan, law->item, &problem, part, law->result);
}

/* Two results over disjoint keys merge by their log-sum-exps: what split keys, caches and rings of devices stand on. */
static void merge(const struct law *law, const struct verify_data *a, const struct verify_data *b)
{
    const size_t d_v = (size_t)law->item->problem.d_v;
    for (size_t i = 0; i < reference_o_count(&law->item->problem); i++) {
        const double la = (double)a->lse[i / d_v], lb = (double)b->lse[i / d_v], m = fmax(la, lb);
        const double wa = exp(la - m), wb = exp(lb - m);
        law->expected[i] = (wa * (double)a->o[i] + wb * (double)b->o[i]) / (wa + wb);
    }
}

static bool split_keys(const struct law *law)
{
    const int64_t n_kv = law->item->problem.shape.n_kv, half = n_kv / 3; /* in unequal parts */
    struct verify_data a = {.q = NULL}, b = {.q = NULL};
    const bool good = forward_part(law, 0, half, &a) && forward_part(law, half, n_kv - half, &b);
    if (good)
        merge(law, &a, &b);
    verify_data_destroy(&a);
    verify_data_destroy(&b);
    return good && forward(law) && compare(law);
}

/* Sixteenths up to 1: their sums are exact in every type. */
static void fill_sixteenths(struct law *law)
{
    for (size_t i = 0; i < reference_v_count(&law->item->problem); i++)
        law->data->v[i] = (float)(random_below(&law->random, 33) - 16) / 16.0f;
}

static bool linear_v(struct law *law)
{
    const size_t inputs = reference_v_count(&law->item->problem), outputs = reference_o_count(&law->item->problem);
    float *first = malloc((inputs + 1) * sizeof *first);
    if (!first)
        return verify_error(law->result, "no memory for its arrays");
    fill_sixteenths(law);
    memcpy(first, law->data->v, inputs * sizeof *first);
    bool good = forward(law);
    remember(law);
    fill_sixteenths(law);
    good = good && forward(law);
    for (size_t i = 0; i < outputs; i++)
        law->expected[i] += (double)law->data->o[i];
    for (size_t i = 0; i < inputs; i++)
        law->data->v[i] += first[i];
    free(first);
    return good && forward(law) && compare(law);
}

static bool separate_batches(const struct law *law)
{
    struct reference_problem one = law->item->problem;
    const size_t batches = (size_t)one.shape.batch;
    one.shape.batch = 1;
    for (size_t i = 0; i < batches; i++) {
        struct verify_data part = *law->data; /* the same arrays, from batch i on */
        part.q += i * reference_q_count(&one);
        part.k += i * reference_k_count(&one);
        part.v += i * reference_v_count(&one);
        if (!verify_forward(law->session, law->plan, law->item, &one, &part, law->result))
            return false;
        for (size_t j = 0; j < reference_o_count(&one); j++)
            law->expected[i * reference_o_count(&one) + j] = (double)part.o[j];
    }
    return forward(law) && compare(law);
}

/* The same plan on the same device gives the same bits, however its work-groups were scheduled. */
static bool bit_equal(const struct law *law)
{
    const size_t count = reference_o_count(&law->item->problem), rows = reference_row_count(&law->item->problem);
    float *first = malloc((count + rows + 1) * sizeof *first);
    bool good = first && forward(law);
    if (good) {
        memcpy(first, law->data->o, count * sizeof *first);
        memcpy(first + count, law->data->lse, rows * sizeof *first);
    } else if (!first) {
        verify_error(law->result, "no memory for its arrays");
    }
    for (int run = 1; good && run < law->item->runs; run++) {
        good = forward(law);
        if (good && (memcmp(first, law->data->o, count * sizeof *first) != 0 ||
                     memcmp(first + count, law->data->lse, rows * sizeof *first) != 0))
            good = verify_fail(law->result, "run %d gave other bits than the first", run + 1);
    }
    free(first);
    return good;
}

/* One key's values of every head. */
static void spoil_key(const struct law *law, int64_t key)
{
    static const float spoilt[] = {NAN, INFINITY, -INFINITY};
    const struct reference_problem *problem = &law->item->problem;
    const struct clattn_shape *shape = &problem->shape;
    for (int64_t head = 0; head < shape->batch * shape->kv_heads; head++)
        for (int64_t x = 0; x < problem->d_v; x++)
            law->data->v[(head * shape->n_kv + key) * problem->d_v + x] = spoilt[(key + x) % 3];
}

/* Outputs of rows from `first` on that saw the key are as they were before, once they have been found not to be finite.
 */
static bool take_seen(const struct law *law, int64_t first)
{
    const struct reference_problem *problem = &law->item->problem;
    for (size_t i = 0; i < reference_o_count(problem); i++) {
        if ((int64_t)(i / (size_t)problem->d_v) % problem->shape.n_q < first)
            continue;
        if (isfinite(law->data->o[i]))
            return verify_fail(law->result, "o[%zu] is %g, though its row sees values that are not finite", i,
                               (double)law->data->o[i]);
        law->data->o[i] = (float)law->expected[i];
    }
    return true;
}

/* What is not finite behind the causal mask stays there: its weight is 0, but not as a factor. */
static bool hidden_values(const struct law *law)
{
    const struct reference_problem *problem = &law->item->problem;
    const struct clattn_shape *shape = &problem->shape;
    const size_t count = reference_v_count(problem);
    const int64_t first = shape->n_q / 2; /* that sees the key, its last one */
    const int64_t key = reference_visible(problem->causal, shape->n_q, shape->n_kv, first) - 1;
    float *clean = malloc((count + 1) * sizeof *clean);
    if (!clean)
        return verify_error(law->result, "no memory for its arrays");
    memcpy(clean, law->data->v, count * sizeof *clean);
    bool good = forward(law);
    remember(law);
    spoil_key(law, key);
    good = good && forward(law) && take_seen(law, first);
    memcpy(law->data->v, clean, count * sizeof *clean);
    free(clean);
    return good && compare(law);
}

static bool apply(struct law *law)
{
    switch (law->item->kind) {
    case VERIFY_CONSTANT_V:
        return constant_v(law);
    case VERIFY_PERMUTED_KEYS:
        return permuted_keys(law);
    case VERIFY_SHIFTED_LOGITS:
        return shifted_logits(law);
    case VERIFY_SPLIT_KEYS:
        return split_keys(law);
    case VERIFY_LINEAR_V:
        return linear_v(law);
    case VERIFY_SEPARATE_BATCHES:
        return separate_batches(law);
    case VERIFY_BIT_EQUAL:
        return bit_equal(law);
    case VERIFY_HIDDEN_VALUES:
        return hidden_values(law);
    case VERIFY_RULE:
    case VERIFY_BACKWARD:
    case VERIFY_STATE:
    case VERIFY_BACKWARD_CHUNKS:
    case VERIFY_KINDS:
        break;
    }
    return verify_fail(law->result, "not a law");
}

bool verify_law(const struct session *session, const clattn_plan *plan, const struct verify_case *item, uint64_t seed,
                struct verify_data *data, struct verify_result *result)
{
    struct law law = {.session = session,
                      .plan = plan,
                      .item = item,
                      .random = {.state = seed ^ 0x1a3u}, /* another stream than the inputs' */
                      .data = data,
                      .expected = calloc(reference_o_count(&item->problem) + 1, sizeof(double)),
                      .result = result};
    const bool good = law.expected ? apply(&law) : verify_error(result, "no memory for its arrays");
    free(law.expected);
    return good;
}
