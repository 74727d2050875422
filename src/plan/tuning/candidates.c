/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/tuning/candidates.h"
#include "plan/packing.h"
#include "plan/sizes.h"
#include "plan/tuning/knobs.h"
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ALIKE = 3,   /* with the same block sizes: their estimates tell them apart least */
    FEWEST_ROWS = 16, /* of most kernels' blocks */
    MOST_OTHERS = 8,  /* skeletons beside the planner's choice, */
    BEFORE_OTHERS = 8 /* and so many candidates before them: a search may give up, or have no more time, later on */
};

/* Rows of a block, and work-items (0: as planned). */
static const int sides[] = {8, 16, 32, 48, 64, 96, 128, 192, 256, 0}, groups[] = {0, 32, 64, 128, 256, 384, 512};
enum { GROUPS = sizeof groups / sizeof *groups };

struct found {
    const struct cla_skeleton *skeleton;
    struct cla_config config;
    double estimate;
};

struct knobs {
    char text[sizeof((struct clattn_plan_info *)0)->knobs];
};

static struct knobs knobs_of(const struct found *found)
{
    struct knobs knobs;
    cla_knobs_write(found->skeleton, &found->config, knobs.text, sizeof knobs.text);
    return knobs;
}

/* All that one skeleton takes. */
struct collection {
    const struct clattn_capabilities *capabilities;
    const struct cla_skeleton *skeleton;
    struct found *items;
    size_t count, capacity;
    bool failed; /* for want of memory */
};

static void add(struct collection *all, const struct cla_config *config, double estimate)
{
    if (all->count == all->capacity) {
        const size_t capacity = all->capacity ? 2 * all->capacity : 256;
        struct found *items = realloc(all->items, capacity * sizeof *items);
        if (!items) {
            all->failed = true;
            return;
        }
        all->items = items;
        all->capacity = capacity;
    }
    all->items[all->count++] = (struct found){all->skeleton, *config, estimate};
}

/* Every combination of the values that are tried for the knobs from `knob` on. */
static void vary(struct collection *all, const struct clattn_problem *problem, const struct cla_knob *knob,
                 const struct cla_config *config)
{
    if (!knob->name) {
        struct cla_config adopted = *config;
        struct clattn_plan_info info = {.step_count = CLA_NO_STEPS};
        if (!cla_adopt(all->capabilities, all->skeleton, problem, &adopted, &info, NULL))
            add(all, &adopted, info.estimate);
        return;
    }
    vary(all, problem, knob + 1, config);
    for (int i = 0; i < knob->tried_count; i++) {
        struct cla_config changed = *config;
        if (knob->tried[i] == cla_knob_get(knob, config))
            continue;
        cla_knob_set(knob, &changed, knob->tried[i]);
        vary(all, problem, knob + 1, &changed);
    }
}

static void collect(struct collection *all, const struct clattn_problem *problem)
{
    struct cla_config config = {0};
    struct clattn_plan_info info = {.step_count = CLA_NO_STEPS};
    if (all->skeleton->choose(all->capabilities, problem, &config, &info, NULL))
        return;
    if (all->skeleton->knobs)
        vary(all, problem, all->skeleton->knobs, &config);
    else
        add(all, &config, info.estimate);
}

/* What is tried of a size: what a problem forces alone, else the list. */
static const int *tried(int forced, const int *list, int buffer[2])
{
    buffer[0] = forced;
    buffer[1] = 0;
    return forced ? buffer : list;
}

static void collect_grid(struct collection *all, const struct clattn_problem *problem)
{
    int one_row[2], one_key[2];
    const int *rows = tried(problem->b_r, sides, one_row);
    const int *all_keys = tried(problem->b_c, cla_sizes_tried(all->skeleton->name), one_key);
    for (; *rows; rows++) {
        struct clattn_problem forced = *problem;
        forced.b_r = *rows;
        if (!problem->b_r && problem->expected_n_q && *rows / 2 >= problem->expected_n_q && *rows > FEWEST_ROWS)
            continue;
        for (const int *keys = all_keys; *keys; keys++) {
            forced.b_c = *keys;
            for (int g = 0; g < (problem->work_group_size ? 1 : GROUPS); g++) {
                forced.work_group_size = problem->work_group_size ? problem->work_group_size : groups[g];
                collect(all, &forced);
            }
        }
    }
}

static int by_estimate(const void *left, const void *right)
{
    const struct found *a = left, *b = right;
    if (a->estimate != b->estimate)
        return a->estimate < b->estimate ? -1 : 1;
    return strcmp(knobs_of(a).text, knobs_of(b).text);
}

static bool same_sizes(const struct clattn_plan_info *info, const struct cla_config *config)
{
    return info->b_r == config->b_r && info->b_c == config->b_c && info->work_group_size == config->work_group_size;
}

/* Plans what a problem forces: one more candidate. */
static clattn_status append(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                            struct clattn_plan_info *infos, int *count, struct cla_error *error)
{
    struct cla_choice choice;
    struct clattn_plan_info info;
    const clattn_status status = cla_plan(capabilities, problem, &choice, &info, error);
    if (!status)
        infos[(*count)++] = info;
    return status;
}

/* The best of a collection, but for those that the list has or has enough of. */
static clattn_status take_best(const struct collection *all, const struct clattn_problem *problem,
                               struct clattn_plan_info *infos, int capacity, int *count, struct cla_error *error)
{
    clattn_status status = CLATTN_SUCCESS;
    for (size_t i = 0; i < all->count && *count < capacity && !status; i++) {
        const struct found *found = &all->items[i];
        const struct knobs knobs = knobs_of(found);
        int alike = 0;
        for (int j = 0; j < *count; j++)
            if (same_sizes(&infos[j], &found->config))
                alike += strcmp(infos[j].knobs, knobs.text) == 0 ? MOST_ALIKE : 1;
        if (alike >= MOST_ALIKE)
            continue;
        struct clattn_problem forced = *problem;
        forced.skeleton = all->skeleton->name;
        forced.b_r = found->config.b_r;
        forced.b_c = found->config.b_c;
        forced.work_group_size = found->config.work_group_size;
        forced.knobs = knobs.text[0] ? knobs.text : NULL;
        status = append(all->capabilities, &forced, infos, count, error);
    }
    return status;
}

static int list_others(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                       const char *taken, const struct cla_skeleton **others)
{
    int count = 0;
    for (const struct cla_skeleton *const *skeleton = cla_skeletons; *skeleton && !problem->skeleton; skeleton++)
        if (cla_skeleton_serves(*skeleton, problem->pass) && strcmp((*skeleton)->name, taken) != 0 &&
            (*skeleton)->prefers(capabilities, problem) && count < MOST_OTHERS)
            others[count++] = *skeleton;
    return count;
}

/* What other skeletons would choose, whose estimates do not compare: these from `first` up to `end`. */
static clattn_status append_others(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                   const struct cla_skeleton *const *first, const struct cla_skeleton *const *end,
                                   struct clattn_plan_info *infos, int capacity, int *count, struct cla_error *error)
{
    for (; first < end && *count < capacity; first++) {
        struct clattn_problem other = *problem;
        other.skeleton = (*first)->name;
        /* One that does not fit after all is one candidate less. */
        if (append(capabilities, &other, infos, count, error) == CL_OUT_OF_HOST_MEMORY)
            return CL_OUT_OF_HOST_MEMORY;
    }
    return CLATTN_SUCCESS;
}

clattn_status cla_candidates(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                             struct clattn_plan_info *infos, int capacity, int *count, struct cla_error *error)
{
    if (problem->knobs)
        return cla_fail(error, CLATTN_INVALID_ARGUMENT,
                        "problem.knobs is \"%.80s\": it must be NULL here, since candidates differ in knobs",
                        problem->knobs);
    *count = 0;
    clattn_status status = append(capabilities, problem, infos, count, error);
    if (status)
        return status;
    struct collection all = {.capabilities = capabilities, .skeleton = cla_skeleton_find(infos[0].skeleton)};
    const struct cla_skeleton *others[MOST_OTHERS];
    int other_count = list_others(capabilities, problem, infos[0].skeleton, others);
    other_count = other_count < capacity - 1 ? other_count : capacity - 1;
    const int last = other_count > 0 ? other_count - 1 : 0; /* the one that runs anywhere, and is rarely the fastest */
    const bool packs = cla_plans_to_pack(all.skeleton, problem);
    const struct clattn_problem planned = packs ? cla_problem_packed(problem) : *problem; /* as a plan has it */
    collect_grid(&all, &planned);
    if (all.items)
        qsort(all.items, all.count, sizeof *all.items, by_estimate);
    if (all.failed)
        status = cla_fail(error, CL_OUT_OF_HOST_MEMORY, "no host memory for a list of candidates");
    const int before = BEFORE_OTHERS < capacity - other_count ? BEFORE_OTHERS : capacity - other_count;
    if (!status)
        status = take_best(&all, problem, infos, before, count, error);
    if (!status)
        status = append_others(capabilities, problem, others, others + last, infos, capacity, count, error);
    if (!status)
        status = take_best(&all, problem, infos, capacity - (other_count - last), count, error);
    if (!status)
        status =
            append_others(capabilities, problem, others + last, others + other_count, infos, capacity, count, error);
    free(all.items);
    return status;
}
