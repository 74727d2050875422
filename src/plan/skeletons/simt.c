/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/skeletons/simt.h"
#include "plan/sizes.h"
#include <math.h>
#include <stddef.h>

enum { MOST_ITEMS = 512 }; /* of a work-group: beyond, barriers cost more than reuse gains */

/* Widths of a row of items, not only powers of two: 4 * TX should divide d_v, or nearly. */
static const int widths[] = {8, 16, 32, 4, 10, 12, 14, 20, 24, 28, 40, 48, 56, 64, 5, 6, 7, 3, 2, 1, 128};

struct cla_simt_limits cla_simt_limits_of(const struct clattn_capabilities *capabilities)
{
    enum { ALIGNING = 16 }; /* drivers may align the kernel's array */
    const struct cla_machine machine = cla_machine_of(capabilities);
    return (struct cla_simt_limits){.machine = machine,
                                    .local_bytes = machine.local_bytes > ALIGNING ? machine.local_bytes - ALIGNING : 0,
                                    .items = machine.group_items};
}

int cla_simt_carried_words(const struct clattn_problem *problem)
{
    return cla_types_are_one(problem) ? clattn_dtype_size(problem->dtype) : (int)sizeof(float);
}

int cla_simt_words_of(const struct cla_simt_limits *limits, int items)
{
    const struct cla_machine *machine = &limits->machine;
    const int part = machine->unit_registers / cla_simt_round_up(items, machine->lanes) / 8 * 8;
    return part < machine->item_words ? part : machine->item_words;
}

/* Work-groups that share a compute unit, by local memory, registers and the items that fit one. */
static int64_t residents(const struct cla_simt_limits *limits, const struct cla_config *config,
                         const struct cla_simt_work *work)
{
    enum {
        RESERVED = 1040,     /* local memory of each group that the driver and the kernel's alignment take */
        MOST_REGISTERS = 256 /* of an item */
    };
    const struct cla_machine *machine = &limits->machine;
    const int words =
        work->private_words > MOST_REGISTERS ? MOST_REGISTERS : cla_simt_round_up((int)work->private_words, 8);
    const int64_t held = (int64_t)words * cla_simt_round_up(config->work_group_size, machine->lanes);
    const int64_t by_local = (int64_t)(limits->local_bytes / (work->local_bytes + RESERVED)) * machine->local_parts;
    const int64_t by_registers = machine->unit_registers / held,
                  by_items = machine->unit_items / config->work_group_size;
    int64_t groups = by_local < by_registers ? by_local : by_registers;
    groups = groups < by_items ? groups : by_items;
    return groups > 1 ? groups : 1;
}

/* How much longer the busiest scheduler works than the average one, with the best of up to so many groups at work (the
 * best, so that room for one more never counts as a loss). */
static double unevenness(int schedulers, int sub_groups, int groups)
{
    double least = schedulers;
    for (int count = 1; count <= groups && least > 1; count++) {
        const double uneven = (double)cla_simt_round_up(count * sub_groups, schedulers) / (count * sub_groups);
        least = uneven < least ? uneven : least;
    }
    return least;
}

static int sub_groups_of(const struct cla_simt_limits *limits, const struct cla_config *config)
{
    return cla_simt_ceil_div(config->work_group_size, limits->machine.lanes);
}

/* How much longer it takes as its schedulers have fewer sub-groups than they want. */
static double loneliness(const struct cla_machine *machine, int sub_groups)
{
    const double wanted = machine->least_sub_groups * machine->schedulers;
    return machine->least_sub_groups > 1 && sub_groups < wanted ? wanted / sub_groups : 1;
}

/* Slots of an item's instructions, and of what it reads and writes of local memory. */
static double issue_of(const struct cla_simt_work *work)
{
    const struct cla_simt_weights *weight = &cla_simt_weights;
    return work->arithmetic * (1 + weight->loop) + work->loads + work->other * work->pairs +
           weight->copy * work->copies + weight->slice * work->slices;
}

static double local_of(const struct cla_simt_work *work)
{
    return cla_simt_weights.word * (work->words + 8 * work->copies + work->written);
}

static double excess_of(const struct cla_simt_limits *limits, const struct cla_config *config,
                        const struct cla_simt_work *work)
{
    const int64_t excess = work->private_words - cla_simt_words_of(limits, config->work_group_size);
    return excess > 0 ? (double)excess : 0;
}

/* What a configuration takes in which each slice of the block that is read again costs so much, and each word that
 * registers do not hold. */
static double slots_at(const struct cla_simt_limits *limits, const struct cla_config *config,
                       const struct cla_simt_work *work, double block_slice, double spilled)
{
    const struct cla_machine *machine = &limits->machine;
    const struct cla_simt_weights *weight = &cla_simt_weights;
    const int items = config->work_group_size, sub_groups = sub_groups_of(limits, config);
    const double issue = issue_of(work), local = local_of(work);

    /* Its sub-groups go to the schedulers, and other groups hide what it waits for. */
    const double groups = (double)residents(limits, config, work);
    const double busy = pow(pow(issue, weight->overlap) + pow(local, weight->overlap), 1 / weight->overlap);
    double slots = busy * sub_groups * unevenness(machine->schedulers, sub_groups, (int)groups);
    slots += (work->slices + work->exchanges) * (config->simt.buffers == 1 ? 2 : 1) * weight->barrier / groups;
    slots += (config->simt.prefetch ? 0 : work->slices) * weight->exposed_load / groups;
    slots += work->block_slices * block_slice / groups;
    slots *= 1 + weight->latency * (machine->lanes * machine->schedulers / 128.0) / (groups * items);
    slots *= loneliness(machine, (int)groups * sub_groups);
    return slots + work->bytes * 4 / weight->traffic + spilled * excess_of(limits, config, work) * sub_groups;
}

/* What does not stay in registers goes through device memory, nobody knows how often: never worth it while anything
 * else fits. */
static double with_excess(const struct cla_simt_limits *limits, const struct cla_config *config,
                          const struct cla_simt_work *work, double slots)
{
    const double excess = excess_of(limits, config, work);
    return excess > 0 ? slots * (10 + excess) : slots;
}

/* What the search goes by: no more than is sure on devices that nobody has measured. */
static double careful_slots(const struct cla_simt_limits *limits, const struct cla_config *config,
                            const struct cla_simt_work *work)
{
    return with_excess(limits, config, work, slots_at(limits, config, work, cla_simt_weights.exposed_load, 0));
}

double cla_simt_slots(const struct cla_simt_limits *limits, const struct cla_config *config,
                      const struct cla_simt_work *work)
{
    const struct cla_simt_weights *weight = &cla_simt_weights;
    if (limits->machine.family != CLA_NVIDIA)
        return careful_slots(limits, config, work);
    return slots_at(limits, config, work, weight->block_slice, weight->spilled);
}

/* A tile's work but for what depends on how slices pass. */
static struct cla_simt_work without_slices(const struct cla_simt_work *work)
{
    struct cla_simt_work rest = *work;
    rest.slices = rest.exchanges = rest.block_slices = 0;
    rest.local_bytes = 0;
    return rest;
}

/* At most what careful_slots() says of any passage, */
static double least_slots(const struct cla_simt_limits *limits, const struct cla_config *config,
                          const struct cla_simt_work *work)
{
    const struct cla_simt_work rest = without_slices(work);
    return careful_slots(limits, config, &rest);
}

/* and at most what that says, in a fraction of the time. */
static double bare_slots(const struct cla_simt_limits *limits, const struct cla_config *config,
                         const struct cla_simt_work *work)
{
    const struct cla_simt_work rest = without_slices(work);
    const double slots = fmax(issue_of(&rest), local_of(&rest)) * sub_groups_of(limits, config);
    return with_excess(limits, config, work, slots + work->bytes * 4 / cla_simt_weights.traffic);
}

struct cla_simt_search cla_simt_find(const struct cla_simt_limits *limits, const struct clattn_problem *problem,
                                     const struct cla_simt_model *model)
{
    struct cla_simt_search search = {.model = model, .limits = limits, .problem = problem, .cost = -1};
    const int forced = problem->work_group_size;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const int tx = widths[i];
        if (forced && forced % tx == 0)
            model->consider(&search, tx, forced / tx);
        for (int ty = 32; ty >= 1 && !forced; ty /= 2)
            if (tx * ty <= MOST_ITEMS)
                model->consider(&search, tx, ty);
    }
    return search;
}

/* How slices pass through local memory. */
static const struct passage {
    int resident, buffers, d_slice, row_slice;
} passages[] = {{1, 2, 32, 32}, {1, 2, 32, 16}, {1, 2, 16, 16}, {1, 1, 32, 32}, {1, 1, 16, 16},
                {0, 2, 32, 16}, {0, 2, 16, 16}, {0, 1, 32, 16}, {0, 1, 16, 16}, {0, 1, 8, 8},
                {0, 1, 8, 4},   {0, 1, 4, 2},   {0, 1, 4, 1}};

static void take_passage(const struct passage *passage, int d, int rows, struct cla_config *config)
{
    config->simt.resident = passage->resident;
    config->simt.buffers = passage->buffers;
    config->simt.d_slice = passage->d_slice < cla_simt_round_up(d, 4) ? passage->d_slice : cla_simt_round_up(d, 4);
    config->simt.row_slice = passage->row_slice;
    while (rows % config->simt.row_slice)
        config->simt.row_slice--;
}

static void offer(struct cla_simt_search *search, const struct cla_config *config)
{
    const double cost = search->model->cost(search->limits, search->problem, config, careful_slots);
    if (search->cost >= 0 && cost >= search->cost)
        return;
    search->best = *config;
    search->cost = cost;
}

/* Whether no passage of a tile can be cheaper than the best so far: of many tiles few can. (Rounding may take one bound
 * above the cost that it stands for.) */
static bool cannot_win(const struct cla_simt_search *search, const struct cla_config *config, int rows)
{
    static const cla_simt_slots_function bounds[] = {bare_slots, least_slots};
    const struct passage narrow = {.resident = 1, .buffers = 2, .d_slice = 4, .row_slice = rows};
    struct cla_config least = *config;
    take_passage(&narrow, 4, rows, &least);
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds && search->cost >= 0; i++)
        if (search->model->cost(search->limits, search->problem, &least, bounds[i]) * (1 - 1e-9) >= search->cost)
            return true;
    return false;
}

/* Intel's compiler keeps an address for each load of a slice: where those of the block come again with every slice and
 * have 32 columns, it has no registers for all (ocloc 22.43, DG2, d 128: 45 accesses to scratch memory, with 16 columns
 * none; tests/ptxas/test_other_spills.py). */
static bool wants_addresses(const struct cla_machine *machine, const struct passage *passage)
{
    enum { MOST_COLUMNS = 16 };
    return machine->sub_group_wanted && !passage->resident && passage->d_slice > MOST_COLUMNS;
}

void cla_simt_try(struct cla_simt_search *search, int d, int rows, struct cla_config *config)
{
    const struct cla_simt_model *model = search->model;
    if (cannot_win(search, config, rows))
        return;
    cla_simt_number_items(&search->limits->machine, config);
    for (size_t i = 0; i < sizeof passages / sizeof *passages; i++) {
        if (wants_addresses(&search->limits->machine, &passages[i]))
            continue;
        take_passage(&passages[i], d, rows, config);
        config->simt.prefetch = 1;
        config->simt.prefetch = model->carried(search->problem, config) <= 8;
        if (model->local_bytes(search->problem, config) <= search->limits->local_bytes)
            offer(search, config);
    }
}

clattn_status cla_simt_choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                              const struct cla_simt_model *model, struct cla_config *config,
                              struct clattn_plan_info *info, struct cla_error *error)
{
    const struct cla_simt_limits limits = cla_simt_limits_of(capabilities);
    const struct cla_simt_search search = cla_simt_find(&limits, problem, model);
    if (search.cost < 0)
        return model->nothing_fits(&limits, problem, error);
    *config = search.best;
    model->explain(&limits, problem, config, info);
    return CLATTN_SUCCESS;
}

bool cla_simt_step_down(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                        const struct cla_simt_model *model, struct cla_config *config)
{
    struct cla_simt_limits limits = cla_simt_limits_of(capabilities);
    if (config->work_group_size > 1)
        limits.items = config->work_group_size / 2;
    limits.local_bytes = model->local_bytes(problem, config) - 1;
    const struct cla_simt_search search = cla_simt_find(&limits, problem, model);
    if (search.cost < 0)
        return false;
    *config = search.best;
    return true;
}

bool cla_simt_prefers(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem)
{
    (void)capabilities;
    (void)problem;
    return true;
}

const char *cla_simt_build_options(const struct clattn_capabilities *capabilities, const struct cla_config *config)
{
    (void)config;
    if (capabilities->type == CLATTN_DEVICE_CPU && capabilities->local_memory_type == CLATTN_LOCAL_MEMORY_GLOBAL)
        return CLA_UNOPTIMISED;
    const struct cla_machine machine = cla_machine_of(capabilities);
    return cla_machine_build_options(&machine);
}

const struct cla_knob cla_simt_knobs[] = {
    {"buffers", offsetof(struct cla_config, simt.buffers), 1, 2, {1, 2}, 2},
    {"d_slice", offsetof(struct cla_config, simt.d_slice), 4, 512, {16, 32}, 2},
    {"prefetch", offsetof(struct cla_config, simt.prefetch), 0, 1, {0, 1}, 2},
    {"resident", offsetof(struct cla_config, simt.resident), 0, 1, {0, 1}, 2},
    {"row_slice", offsetof(struct cla_config, simt.row_slice), 1, 256, {16, 32}, 2},
    {"tx", offsetof(struct cla_config, simt.tx), 1, 512, {0}, 0},
    {NULL, 0, 0, 0, {0}, 0}};

bool cla_simt_is_whole(const struct cla_simt_limits *limits, int d, int rows, struct cla_config *config)
{
    const int items = config->work_group_size;
    if (items < 1 || items > limits->items || items % config->simt.tx || config->simt.d_slice % 4 ||
        config->simt.d_slice > cla_simt_round_up(d, 4) || rows % config->simt.row_slice)
        return false;
    cla_simt_number_items(&limits->machine, config);
    return true;
}

/* Items are numbered in patches of 32, as square as 8 x 4, so that the lanes of a hardware vector touch few distinct
 * rows and columns (5 % at d = 128); in plain order where no patch fits. */
void cla_simt_number_items(const struct cla_machine *machine, struct cla_config *config)
{
    const int tx = config->simt.tx, ty = config->work_group_size / tx;
    int x = 1, y = 1;
    while (x < 8 && tx % (2 * x) == 0)
        x *= 2;
    while (x * y < 32 && ty % (2 * y) == 0)
        y *= 2;
    config->simt.lanes_x = x * y < 32 ? tx : x;
    config->simt.lanes_y = x * y < 32 ? 1 : y;
    config->simt.sub_group = machine->sub_group_wanted;
}

/* Blocks of the mask that a tile's side meets, on average. */
static double blocks_met(int tile, int block)
{
    if (block % tile == 0)
        return 1;
    return tile % block == 0 ? tile / block : 1 + (tile - 1.0) / block;
}

/* A tile is computed where any block that it meets is there: of random masks, half full. */
double cla_simt_mask_factor(const struct clattn_problem *problem, const struct cla_config *config)
{
    if (!problem->block_q || !problem->block_kv)
        return 1;
    return 2 * (1 - pow(0.5, blocks_met(config->b_r, problem->block_q) * blocks_met(config->b_c, problem->block_kv)));
}

void cla_simt_define(const struct clattn_problem *problem, const struct cla_config *config, struct cla_text *text)
{
    (void)problem;
    const struct cla_define defines[] = {{"BUFFERS", config->simt.buffers},     {"D_SLICE", config->simt.d_slice},
                                         {"LANES_X", config->simt.lanes_x},     {"LANES_Y", config->simt.lanes_y},
                                         {"PREFETCH", config->simt.prefetch},   {"RESIDENT", config->simt.resident},
                                         {"ROW_SLICE", config->simt.row_slice}, {"TX", config->simt.tx}};
    cla_text_define(text, defines, sizeof defines / sizeof *defines);
    const struct cla_define sub_group = {"SUB_GROUP", config->simt.sub_group};
    if (config->simt.sub_group)
        cla_text_define(text, &sub_group, 1);
}
