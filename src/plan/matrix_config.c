/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What planners make of a matrix unit: a configuration, what limits it, and what it costs. */
#include "plan/machine.h"
#include "plan/matrix_units.h"
#include "plan/planner.h"
#include "plan/sizes.h"
#include <math.h>
#include <stdio.h>

struct cla_matrix_limits cla_matrix_limits_of(const struct clattn_capabilities *capabilities)
{
    const int64_t items = (int64_t)capabilities->max_work_group_size, first = (int64_t)capabilities->max_work_item_size;
    const uint64_t local = cla_usable_local_bytes(capabilities);
    return (struct cla_matrix_limits){.local_bytes = local > CLA_ADDED_BYTES ? local - CLA_ADDED_BYTES : 0,
                                      .items = first && first < items ? first : items};
}

int cla_matrix_lanes(const struct cla_config *config)
{
    return config->unit->devices ? config->unit->lanes : CLA_NVIDIA_LANES;
}

int cla_matrix_operand_words(const struct cla_config *config)
{
    return (config->unit->devices ? config->unit : &cla_matrix_units[CLA_NVIDIA_MMA])->operand_words;
}

/* What registers hold of an item's words, all of whose work-group are on one compute unit. */
static int held_words(const struct cla_machine *machine, const struct cla_config *config, int words)
{
    const int part = machine->unit_registers / config->work_group_size, most = config->unit->most_words;
    const int held = part < most ? part : most;
    return words < held ? words : held > 1 ? held : 1;
}

/* Work-groups that a compute unit holds. NVIDIA's driver adds to the local memory of each. */
static int groups_of(const struct clattn_capabilities *capabilities, const struct cla_config *config, int held,
                     uint64_t local_bytes)
{
    enum { RESERVED = 1 << 10 };
    const struct cla_machine machine = cla_machine_of(capabilities);
    const int items = config->work_group_size;
    const uint64_t taken = local_bytes + (capabilities->nv_compute_capability ? RESERVED : 0);
    const uint64_t room = machine.local_bytes * (uint64_t)machine.local_parts / taken;
    int groups = machine.unit_registers / (held * items);
    groups = machine.unit_items / items < groups ? machine.unit_items / items : groups;
    groups = room < (uint64_t)groups ? (int)room : groups;
    return groups > 1 ? groups : 1;
}

double cla_matrix_cost(const struct clattn_capabilities *capabilities, const struct cla_config *config,
                       const struct cla_matrix_work *work, int words, uint64_t local_bytes)
{
    const struct cla_matrix_rates *rates = cla_matrix_rates_of(cla_matrix_family(capabilities, config), config->level);
    const int lanes = cla_matrix_lanes(config);
    if (!config->unit->devices)
        return cla_matrix_clocks(rates, lanes, work, INFINITY) / rates->product;
    const struct cla_machine machine = cla_machine_of(capabilities);
    const int held = held_words(&machine, config, words), groups = groups_of(capabilities, config, held, local_bytes);
    const double sub_groups = groups * (double)config->work_group_size / machine.lanes / machine.schedulers;
    return cla_matrix_clocks(rates, lanes, work, sub_groups) / rates->product * (groups == 1 ? rates->one_group : 1) *
           (words > held ? rates->spills + rates->spilled * (words - held) : 1);
}

bool cla_matrix_hides_waits(const struct clattn_capabilities *capabilities, const struct cla_config *config,
                            uint64_t local_bytes, int sub_groups)
{
    const struct cla_machine machine = cla_machine_of(capabilities);
    const uint64_t groups = machine.local_bytes * (uint64_t)machine.local_parts / local_bytes;
    const int wanted = machine.schedulers * machine.least_sub_groups;
    return config->unit->trust == CLA_UNIT_PROVEN || groups * (uint64_t)sub_groups >= (uint64_t)wanted;
}

bool cla_matrix_emulation_preferred(const struct clattn_capabilities *capabilities,
                                    const struct clattn_problem *problem)
{
    (void)capabilities;
    (void)problem;
    return false;
}

const char *cla_matrix_build_options(const struct clattn_capabilities *capabilities, const struct cla_config *config)
{
    (void)config;
    const struct cla_machine machine = cla_machine_of(capabilities);
    return machine.family == CLA_CPU ? CLA_UNOPTIMISED : cla_machine_build_options(&machine);
}

enum cla_family cla_matrix_family(const struct clattn_capabilities *capabilities, const struct cla_config *config)
{
    return config->unit->devices ? cla_machine_of(capabilities).family : CLA_ANY_FAMILY;
}

int cla_matrix_capability(const struct clattn_capabilities *capabilities)
{
    const int capability = (int)capabilities->nv_compute_capability;
    return capability / 100 * 10 + capability % 100;
}

struct cla_config cla_matrix_config(const struct clattn_capabilities *capabilities, enum clattn_dtype dtype)
{
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(capabilities, dtype);
    return (struct cla_config){.unit = unit, .lanes = unit->lanes, .level = cla_matrix_level(unit, capabilities)};
}

void cla_matrix_keep_unit(struct cla_config *config, const struct cla_config *from)
{
    config->unit = from->unit;
    config->lanes = from->lanes;
    config->emulation = from->emulation;
    config->level = from->level;
}

clattn_status cla_matrix_choose(const struct clattn_capabilities *capabilities, const struct clattn_problem *problem,
                                const char *name, cla_matrix_take *take, struct cla_config *config,
                                struct clattn_plan_info *info, struct cla_error *error)
{
    const clattn_status status = cla_matrix_check(capabilities, problem, name, error);
    if (status)
        return status;
    *config = cla_matrix_config(capabilities, problem->dtype);
    return take(capabilities, problem, config, info, error);
}

clattn_status cla_matrix_choose_emulated(const struct clattn_capabilities *capabilities,
                                         const struct clattn_problem *problem, const char *name, cla_matrix_take *take,
                                         struct cla_config *config, struct clattn_plan_info *info,
                                         struct cla_error *error)
{
    const clattn_status status = cla_matrix_check_problem(problem, name, error);
    *config = (struct cla_config){.unit = &cla_matrix_units[CLA_EMULATED], .lanes = CLA_EMULATED_LANES};
    return status ? status : take(capabilities, problem, config, info, error);
}

/* The knobs of each emulation, as a message names them. */
static void list_emulations(char *list, size_t size)
{
    size_t used = 0;
    for (const struct cla_matrix_unit *unit = cla_matrix_units; unit->name && used < size; unit++) {
        if (unit->devices)
            continue;
        used += (size_t)snprintf(list + used, size - used, "%slanes=%d", used ? ", " : "", unit->lanes);
        if (used < size && !cla_matrix_emulation(unit->lanes, 0))
            used += (size_t)snprintf(list + used, size - used, " emulation=%d", cla_matrix_emulation_number(unit));
        if (used < size)
            used += (size_t)snprintf(list + used, size - used, " (%s)", unit->name);
    }
}

clattn_status cla_matrix_take_emulation(const struct clattn_problem *problem, const char *name,
                                        struct cla_config *config, struct cla_error *error)
{
    char list[512];
    const char *knobs = problem->knobs ? problem->knobs : "";
    if (config->unit->devices)
        return CLATTN_SUCCESS;
    const struct cla_matrix_unit *unit = cla_matrix_emulation(config->lanes, config->emulation);
    list_emulations(list, sizeof list);
    if (!unit)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.knobs \"%s\" do not name one of the emulations of %s: take %s", knobs, name, list);
    if (!unit->takes(NULL, problem->dtype))
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.dtype is %s: the emulation %s, which problem.knobs \"%s\" of %s name, takes %s",
                        clattn_dtype_name(problem->dtype), unit->name, knobs, name, unit->takes_text);
    if (unit != config->unit && problem->work_group_size)
        return cla_fail(error, CLATTN_NOTHING_FITS,
                        "problem.work_group_size is %d: the emulation %s, which problem.knobs \"%s\" of %s name, wants "
                        "it left to the plan: 0",
                        problem->work_group_size, unit->name, knobs, name);
    const int sub_groups = unit->one_sub_group ? 1 : config->work_group_size / config->unit->lanes;
    config->work_group_size = unit->lanes * sub_groups;
    config->unit = unit;
    return CLATTN_SUCCESS;
}
