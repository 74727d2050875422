/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/draw.h"
#include "plan/checked.h"
#include "plan/features/feature.h"
#include "verify/skeletons.h"
#include "verify/types.h"
#include <math.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

enum {
    FEWEST_FEATURES = 3,
    SHORT = 64,
    MOST_PAIRS = 3000 * 1000,         /* of all heads together, */
    MOST_PRODUCTS = 250 * 1000 * 1000 /* and times d + d_v: what the float64 reference has to do */
};

enum { FIRST_FEATURES = 10, FIRST_ALL = FIRST_FEATURES + 2 }; /* of the first release, and the user's functions */

/* Pages are drawn by themselves, being how keys lie, and not in all passes. */
static unsigned features_known(void)
{
    return cla_features_known() & ~(unsigned)CLATTN_PAGES;
}

int verify_feature_count(void)
{
    int count = 2;
    for (unsigned left = features_known(); left; left &= left - 1)
        count++;
    return count;
}

unsigned verify_feature(int i)
{
    if (i < FIRST_FEATURES)
        return 1u << i;
    if (i < FIRST_ALL)
        return 1u << (VERIFY_FIRST_MOD + i - FIRST_FEATURES);
    unsigned later = verify_later_features();
    for (; i > FIRST_ALL; i--)
        later &= later - 1;
    return later & -later;
}

unsigned verify_all_features(void)
{
    return features_known() | VERIFY_WITH_SCORE_MOD | VERIFY_WITH_MASK_MOD;
}

unsigned verify_later_features(void)
{
    return features_known() & ~((1u << FIRST_FEATURES) - 1);
}

unsigned verify_plain_features(unsigned traits)
{
    return cla_features_with_their_own(traits & features_known());
}

const struct option_word *verify_trait_words(void)
{
    static const struct option_word others[] = {{"score_mod", VERIFY_WITH_SCORE_MOD},
                                                {"mask_mod", VERIFY_WITH_MASK_MOD},
                                                {"csr", VERIFY_WITH_CSR},
                                                {"ordered", VERIFY_ORDERED},
                                                {"unordered", VERIFY_UNORDERED},
                                                {"types", VERIFY_WITH_TYPES},
                                                {"formats", VERIFY_WITH_FORMATS},
                                                {NULL, 0}};
    static struct option_word words[32 + sizeof others / sizeof *others];
    int count = 0;
    for (int i = 0; i < cla_feature_count; i++)
        if (cla_features[i].bit & cla_features_known())
            words[count++] = (struct option_word){cla_features[i].name, (int)cla_features[i].bit};
    memcpy(words + count, others, sizeof others);
    return words;
}

unsigned verify_choose(struct random *random, int count)
{
    unsigned chosen = 0;
    while (count) {
        const unsigned bit = verify_feature((int)random_below(random, FIRST_ALL));
        count -= !(chosen & bit);
        chosen |= bit;
    }
    return chosen;
}

int verify_count_features(unsigned traits)
{
    int count = 0;
    for (unsigned left = traits & verify_all_features(); left; left &= left - 1)
        count++;
    return count;
}

unsigned verify_traits_of(const struct verify_case *item)
{
    const unsigned order = !verify_is_backward(item) ? 0u : item->unordered ? VERIFY_UNORDERED : VERIFY_ORDERED;
    return item->problem.score.features | (unsigned)item->mods << VERIFY_FIRST_MOD |
           (item->csr ? (unsigned)VERIFY_WITH_CSR : 0u) | (item->page_keys ? (unsigned)CLATTN_PAGES : 0u) |
           (verify_types_differ(&item->problem) ? (unsigned)VERIFY_WITH_TYPES : 0u) |
           (verify_formats_any(item->formats) ? (unsigned)VERIFY_WITH_FORMATS : 0u) | order;
}

/* Whether an operand's type follows from its format. */
static bool of_format(const struct verify_case *item, int operand)
{
    return (operand == REFERENCE_K && item->formats[0].type) || (operand == REFERENCE_V && item->formats[1].type);
}

void verify_leave_out(struct verify_case *item, unsigned traits)
{
    item->problem.score.features = cla_features_that_stand(item->problem.score.features & ~traits);
    item->mods &= ~(int)((traits & verify_all_features()) >> VERIFY_FIRST_MOD);
    for (int i = 0; i < VERIFY_FORMATS && (traits & VERIFY_WITH_FORMATS); i++) {
        if (item->formats[i].type)
            item->problem.types[REFERENCE_K + i] = CLATTN_AS_DTYPE;
        item->formats[i] = (struct verify_format){.type = 0};
    }
    if (traits & VERIFY_WITH_TYPES)
        for (int i = 0; i < REFERENCE_OPERANDS; i++)
            if (!of_format(item, i))
                item->problem.types[i] = CLATTN_AS_DTYPE;
    if (traits & CLATTN_BIAS)
        item->problem.types[REFERENCE_BIAS] = CLATTN_AS_DTYPE;
    if (traits & CLATTN_PAGES)
        item->page_keys = 0;
    item->csr = item->csr && !(traits & (VERIFY_WITH_CSR | CLATTN_BLOCK_MASK));
    if (traits & CLATTN_BLOCK_MASK)
        item->expected_density = 0.0f;
}

static bool one_in(struct random *random, int64_t count)
{
    return random_below(random, count) == 0;
}

/* --- what is compiled */

/* Mostly what people use, some that no vector or tile divides, few wide ones. */
static int draw_dimension(struct random *random, int largest)
{
    static const int usual[] = {64, 128, 64, 128, 64, 128, 32, 96, 40, 80, 256, 192, 16, 48, 112, 72};
    static const int wide[] = {160, 224, 320, 384, 512, 257, 448};
    const int64_t chance = random_below(random, 20);
    const int d = chance < 14   ? usual[random_below(random, COUNT(usual))]
                  : chance < 18 ? 1 + (int)random_below(random, 256)
                                : wide[random_below(random, COUNT(wide))];
    return d > largest ? 1 + (d - 1) % largest : d;
}

static void draw_dimensions(struct random *random, int largest, struct reference_problem *problem)
{
    problem->d = draw_dimension(random, largest);
    const int other = draw_dimension(random, largest);
    problem->d_v = random_below(random, 3) ? problem->d : other;
}

static enum verify_kind draw_kind(struct random *random, const struct verify_skeleton *skeleton)
{
    const bool chunks = one_in(random, 4) && (!skeleton || skeleton->chunks);
    if (skeleton && skeleton->backward)
        return chunks ? VERIFY_BACKWARD_CHUNKS : VERIFY_BACKWARD;
    return chunks ? VERIFY_STATE : VERIFY_RULE;
}

static int draw_block(struct random *random)
{
    static const int usual[] = {16, 32, 64, 128, 256, 64, 128};
    return one_in(random, 4) ? 16 * (1 + (int)random_below(random, 20)) : usual[random_below(random, COUNT(usual))];
}

/* What a plan may be told of what its calls will be like, whatever they are. */
static void draw_hints(struct random *random, struct verify_case *item)
{
    static const int splits[] = {CLATTN_SPLITS_BY_SHAPE, 2, 3, 7, 30};
    static const float densities[] = {0.0f, 0.0f, 0.3f, 0.9f};
    const int parts = splits[random_below(random, COUNT(splits))];
    const float density = densities[random_below(random, COUNT(densities))];
    const bool told = one_in(random, 4);
    for (int i = 0; i < 3; i++) {
        const int64_t size = 1 + random_below(random, i < 2 ? 512 : 16);
        item->expected[i] = told ? size : 0;
    }
    item->splits = one_in(random, 4) && item->kind == VERIFY_RULE ? parts : 0;
    item->expected_density = item->problem.score.features & CLATTN_BLOCK_MASK ? density : 0.0f;
}

/* Later features, each in one case of four: of numbers of their own, so that all else of a seed's case stays. */
static unsigned draw_later(const struct random *random, unsigned first)
{
    struct random own = {.state = random->state ^ 0x1a7e};
    unsigned chosen = 0;
    for (unsigned left = verify_later_features(); left; left &= left - 1)
        chosen |= one_in(&own, 4) ? left & -left : 0;
    return cla_features_that_stand(first | chosen) & chosen;
}

/* Likewise whether rows are packed. */
static bool draw_packed(const struct random *random, const struct verify_skeleton *skeleton)
{
    struct random own = {.state = random->state ^ 0x9ac7};
    return random_below(&own, 2) && skeleton && skeleton->packs;
}

/* Types of operands, in one case of three, likewise of numbers of their own. */
static void draw_types(const struct random *random, const struct verify_skeleton *skeleton,
                       struct reference_problem *problem)
{
    struct random own = {.state = random->state ^ 0x79e5};
    if (one_in(&own, 3))
        verify_types_draw(&own, !skeleton || !skeleton->declines, problem);
}

/* Pages, likewise, where they can be: sequences whose rows are packed have keys that are, too. */
static void draw_pages(const struct random *random, const struct verify_skeleton *skeleton, struct verify_case *item)
{
    static const int64_t sizes[] = {16, 1, 64, 5, 128, 33};
    struct random own = {.state = random->state ^ 0x9a6e};
    const int64_t keys = sizes[random_below(&own, COUNT(sizes))];
    item->compressed = random_below(&own, 2);
    if (one_in(&own, 4) && item->kind == VERIFY_RULE && !(item->problem.score.features & CLATTN_VARLEN) &&
        (!skeleton || !skeleton->declines))
        item->page_keys = keys;
}

/* Formats of K and V, likewise, whose values are floats. */
static void draw_formats(const struct random *random, const struct verify_skeleton *skeleton, struct verify_case *item)
{
    struct random own = {.state = random->state ^ 0xf8a75};
    if (!one_in(&own, 3) || item->kind != VERIFY_RULE || (skeleton && skeleton->declines))
        return;
    verify_formats_draw(&own, item->formats);
    for (int i = 0; i < VERIFY_FORMATS; i++)
        if (item->formats[i].type)
            item->problem.types[REFERENCE_K + i] = CLATTN_AS_FP32;
}

/* Latent attention's dimensions, likewise. */
static void draw_latent(const struct random *random, const struct verify_skeleton *skeleton, struct verify_case *item)
{
    struct random own = {.state = random->state ^ 0x576};
    if (!one_in(&own, 16) || verify_is_backward(item) || (skeleton && skeleton->declines))
        return;
    item->problem.d = CLATTN_MAX_LATENT_D;
    item->problem.d_v = CLATTN_MAX_D;
}

/* First keys that a window does not hide, likewise. */
static void draw_sink_keys(const struct random *random, struct verify_case *item)
{
    static const int64_t counts[] = {1, 4, 33, 130};
    struct random own = {.state = random->state ^ 0x517c};
    if (one_in(&own, 3) && item->problem.score.features & CLATTN_WINDOW && !verify_is_backward(item))
        item->problem.score.sink_keys = counts[random_below(&own, COUNT(counts))];
}

/* A plan for few rows, likewise, where matrix units may have kernels for them, which take pages and formats. */
static void draw_few(const struct random *random, const struct verify_skeleton *skeleton, struct verify_case *item)
{
    static const enum clattn_operand_type bytes[] = {CLATTN_AS_INT8, CLATTN_AS_FP8_E4M3, CLATTN_AS_FP8_E5M2};
    struct random own = {.state = random->state ^ 0xfe3};
    struct reference_problem *problem = &item->problem;
    if (!one_in(&own, 4) || item->kind != VERIFY_RULE || problem->score.features & CLATTN_DROPOUT ||
        (skeleton && !skeleton->packs))
        return;
    item->expected[0] = 1 + random_below(&own, 16);
    item->expected[1] = 1 + random_below(&own, 5000);
    item->expected[2] = 1 + random_below(&own, 300);
    problem->dtype = (enum clattn_dtype)(1 + random_below(&own, 2));
    problem->d = (int)(32 * (1 + random_below(&own, 4)));
    problem->d_v = (int)(64 * (1 + random_below(&own, 2)));
    memset(problem->types, 0, sizeof problem->types);
    draw_pages(&own, NULL, item);
    draw_formats(&own, NULL, item);
    /* of formats those that such kernels do not round */
    for (int i = 0; i < VERIFY_FORMATS; i++)
        if (item->formats[i].type)
            item->formats[i] = (struct verify_format){.type = bytes[item->formats[i].type % COUNT(bytes)]};
}

static void draw_program(struct random *random, const char *name, struct verify_case *item)
{
    static const double shares[] = {0.0125, 0.125, 0.1, 0.5, 0.9};
    const struct verify_skeleton *skeleton = verify_skeleton_of(name);
    const unsigned chosen =
        verify_choose(random, FEWEST_FEATURES + (int)random_below(random, FIRST_ALL - FEWEST_FEATURES + 1));
    struct reference_problem *problem = &item->problem;
    item->mods = (int)(chosen >> VERIFY_FIRST_MOD);
    item->csr = random_below(random, 2) && chosen & CLATTN_BLOCK_MASK;
    item->kind = draw_kind(random, skeleton);
    problem->score.features =
        cla_features_of_pass(verify_plain_features(chosen) | draw_later(random, chosen), verify_is_backward(item));
    const int64_t dtype = random_below(random, 6);
    problem->dtype = (enum clattn_dtype)(skeleton && !skeleton->takes_fp32 ? 1 + dtype % 2 : dtype % 3);
    draw_types(random, skeleton, problem);
    draw_pages(random, skeleton, item);
    draw_formats(random, skeleton, item);
    problem->causal = (enum clattn_causal)random_below(random, 3);
    problem->scale = one_in(random, 5) ? 0.0625 : 0.0;
    draw_dimensions(random, skeleton ? skeleton->largest_d : CLATTN_MAX_D, problem);
    draw_latent(random, skeleton, item);
    problem->score.block_q = draw_block(random);
    problem->score.block_kv = draw_block(random);
    problem->score.dropout_p = shares[random_below(random, COUNT(shares))];
    item->p_is_known = random_below(random, 2);
    const bool any_order = one_in(random, 4) || (skeleton && skeleton->any_order);
    item->unordered = verify_is_backward(item) && any_order;
    item->packed = draw_packed(random, skeleton);
    draw_hints(random, item);
    draw_few(random, skeleton, item);
    draw_sink_keys(random, item);
}

/* --- what comes with a call */

/* Some few, some hundreds, multiples of tiles and one more or less, and rarely many. */
static int64_t draw_length(struct random *random)
{
    const int64_t chance = random_below(random, 64);
    if (chance < 8)
        return 1 + random_below(random, 16);
    if (chance < 42)
        return 1 + random_below(random, 300);
    if (chance < 58)
        return 32 * (1 + random_below(random, 12)) + random_below(random, 3) - 1;
    return chance < 63 ? 300 + random_below(random, 500) : 1000 + random_below(random, 3000);
}

static void shorten(struct clattn_shape *shape)
{
    int64_t *const longer = shape->n_kv > shape->n_q ? &shape->n_kv : &shape->n_q;
    *longer = *longer * 3 / 4;
}

/* Smaller, until the reference can afford it; a crowd of short heads stays one. */
static void make_affordable(struct reference_problem *problem, bool crowd)
{
    struct clattn_shape *shape = &problem->shape;
    for (;;) {
        const double pairs = (double)shape->batch * (double)shape->heads * (double)shape->n_q * (double)shape->n_kv;
        if (pairs <= MOST_PAIRS && pairs * (problem->d + problem->d_v) <= MOST_PRODUCTS)
            return;
        if (crowd && shape->n_q * shape->n_kv > SHORT * SHORT)
            shorten(shape);
        else if (shape->batch > 1)
            shape->batch--;
        else if (shape->heads > 2)
            shape->heads = shape->kv_heads = shape->heads > shape->kv_heads ? shape->kv_heads : shape->heads / 2;
        else
            shorten(shape);
    }
}

/* Few heads; or so many that kernels with persistent work-groups have more blocks than work-groups. */
static void draw_shape(struct random *random, struct reference_problem *problem)
{
    static const int64_t heads[][2] = {{1, 1}, {2, 2}, {4, 2}, {6, 1}, {8, 2}, {3, 3}, {5, 1}, {6, 3}};
    const int64_t *h = heads[random_below(random, COUNT(heads))];
    struct clattn_shape *shape = &problem->shape;
    const bool packed = problem->score.features & CLATTN_VARLEN, crowd = one_in(random, 10);
    *shape = (struct clattn_shape){.batch = 1 + random_below(random, 4), .heads = h[0], .kv_heads = h[1]};
    shape->batch += (packed ? 2 : 0) + (crowd ? 16 + random_below(random, 32) : 0);
    shape->n_q = draw_length(random);
    shape->n_kv = one_in(random, 4) ? shape->n_q : draw_length(random);
    make_affordable(problem, crowd);
    verify_enlarge(problem);
}

static int64_t draw_reach(struct random *random, int64_t longest)
{
    switch (random_below(random, 6)) {
    case 0:
        return -1;
    case 1:
        return 0;
    case 2:
        return 1 + random_below(random, 8);
    case 3:
        return 1 + random_below(random, longest);
    default:
        return 1 + random_below(random, 64);
    }
}

/* Numbers of the score modifications. */
static void draw_score(struct random *random, struct verify_case *item)
{
    static const double caps[] = {5.0, 30.0, 50.0};
    static const int kept[] = {10, 30, 50, 50, 70, 70, 90, 100};
    struct reference_score *score = &item->problem.score;
    const struct clattn_shape *shape = &item->problem.shape;
    const int64_t longest = shape->n_q > shape->n_kv ? shape->n_q : shape->n_kv;
    score->window_left = draw_reach(random, longest);
    score->window_right = draw_reach(random, longest);
    score->softcap = caps[random_below(random, COUNT(caps))];
    score->dropout_seed = random_next(random);
    score->dropout_offset = (uint32_t)random_below(random, 1000);
    item->kept = one_in(random, 32) ? 0 : kept[random_below(random, COUNT(kept))];
}

static void draw_layouts(struct random *random, struct verify_case *item)
{
    item->layout = (enum verify_layout)random_below(random, VERIFY_LAYOUTS);
    item->aligned = random_below(random, 2);
    item->mixed = one_in(random, 4);
    const unsigned shared = 1u + (unsigned)random_below(random, (1 << (2 * VERIFY_SHARED)) - 1);
    item->shared = one_in(random, 4) ? shared : 0;
}

static void draw_call(struct random *random, struct verify_case *item)
{
    static const double gains[] = {0.3, 1.0, 1.0, 3.0};
    static const int64_t chunks[] = {17, 50, 64, 128, 1000};
    draw_shape(random, &item->problem);
    draw_score(random, item);
    draw_layouts(random, item);
    item->gain = gains[random_below(random, COUNT(gains))];
    item->chunk = chunks[random_below(random, COUNT(chunks))];
    item->merged = random_below(random, 2);
}

void verify_draw(uint64_t seed, const char *skeleton, struct verify_case *item)
{
    struct random program = {.state = (seed / VERIFY_PER_PROGRAM * 0xd1342543de82ef95u) ^ 0x9a07u};
    *item = (struct verify_case){.skeleton = skeleton, .given = true};
    draw_program(&program, skeleton, item);
    /* Calls of one program differ, and are the same for skeletons alike. */
    struct random call = {.state = (seed * 0xd1342543de82ef95u) ^ 0xca11u};
    draw_call(&call, item);
    item->runs = verify_is_backward(item) ? 2 : 1;
}
