/* SPDX-License-Identifier: BSD-2-Clause */
#include "json_out.h"
#include "files/output_file.h"
#include "options/names.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string)
        return string;
    char *copy = malloc(strlen(text) + 1);
    if (!copy)
        return NULL;
    size_t length = 0;
    for (; text[length]; length++)
        copy[length] = (unsigned char)text[length] > '~' ? '?' : text[length];
    string = json_stringn(copy, length);
    free(copy);
    return string;
}

json_t *json_measure(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_capabilities(const struct clattn_capabilities *c)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:b, s:b, "
        "s:b, s:b, s:b, s:I, s:I}",
        "name", json_text(c->device_name), "platform", json_text(c->platform_name), "vendor", json_text(c->vendor),
        "driver", json_text(c->driver_version), "version", json_text(c->device_version), "type",
        device_type_name(c->type), "available", c->available, "compiler", c->compiler_available, "compute_units",
        (json_int_t)c->compute_units, "clock_mhz", (json_int_t)c->clock_mhz, "max_work_group_size",
        (json_int_t)c->max_work_group_size, "work_group_multiple", (json_int_t)c->preferred_work_group_multiple,
        "vector_width_float", (json_int_t)c->native_vector_width_float, "sub_group_size", (json_int_t)c->sub_group_size,
        "local_memory_type", local_memory_name(c->local_memory_type), "local_memory_bytes",
        (json_int_t)c->local_memory_bytes, "static_local_memory_bytes", (json_int_t)c->static_local_memory_bytes,
        "cache_bytes", (json_int_t)c->cache_bytes, "nv_compute_capability", (json_int_t)c->nv_compute_capability,
        "nv_wgmma", c->nv_wgmma, "cpu_bf16_dot", c->cpu_bf16_dot != 0, "cpu_amx_bf16", c->cpu_amx_bf16 != 0,
        "matrix_unit_right", c->matrix_unit_right != 0, "half_loads", c->half_loads, "global_memory_bytes",
        (json_int_t)c->global_memory_bytes, "max_allocation_bytes", (json_int_t)c->max_allocation_bytes);
}

static json_t *json_steps(const struct clattn_plan_info *info)
{
    json_t *steps = json_array();
    for (int i = 0; steps && i < info->step_count; i++) {
        const struct clattn_plan_step *step = &info->steps[i];
        json_array_append_new(steps, json_pack("{s:s, s:i, s:i, s:o}", "name", step->name, "b_r", step->b_r, "b_c",
                                               step->b_c, "reason", json_text(step->reason)));
    }
    return steps;
}

json_t *json_plan(const struct clattn_plan_info *info)
{
    return json_pack("{s:I, s:i, s:i, s:o, s:s, s:i, s:i, s:i, s:s, s:s, s:I, s:I, s:i, s:b, s:I, s:I, s:I, s:s, s:s}",
                     "m_elements", (json_int_t)info->m_elements, "paper_b_r", info->paper_b_r, "paper_b_c",
                     info->paper_b_c, "steps", json_steps(info), "skeleton", info->skeleton, "b_r", info->b_r, "b_c",
                     info->b_c, "work_group_size", info->work_group_size, "knobs", info->knobs, "chosen_by",
                     plan_source_name(info->source), "t_r", (json_int_t)info->t_r, "t_c", (json_int_t)info->t_c,
                     "splits", info->splits, "sums", info->sums, "local_bytes", (json_int_t)info->local_bytes,
                     "local_bytes_limit", (json_int_t)info->local_bytes_limit, "private_bytes",
                     (json_int_t)info->private_bytes, "program_key", info->program_key, "constants", info->constants);
}

json_t *json_traffic(const struct clattn_traffic *traffic)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "flash_bytes", json_measure(traffic->flash), "keys_bytes",
                     json_measure(traffic->keys), "standard_bytes", json_measure(traffic->standard), "paper_bytes",
                     json_measure(traffic->paper), "least_bytes", json_measure(traffic->least));
}

int json_print(json_t *value, const char *path, struct failure *failure)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(value);
    if (!text)
        return fail(failure, STATUS_DEVICE, "no memory for the JSON output");
    int status = STATUS_OK;
    if (!path || !strcmp(path, "-")) {
        puts(text);
    } else {
        const size_t length = strlen(text);
        text[length] = '\n'; /* in place of the terminator */
        status = output_write_whole(path, text, length + 1, failure);
    }
    free(text);
    return status;
}

json_t *json_features_of(unsigned features)
{
    json_t *names = json_array();
    for (unsigned left = features; left; left &= left - 1) {
        char name[32];
        features_text(left & -left, name, sizeof name);
        json_array_append_new(names, json_text(name));
    }
    return names;
}
