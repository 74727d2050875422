/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/bench.h"
#include "bench/steady.h"
#include "json_out.h"
#include "options/names.h"

/* A row as JSON. All that reads rows again (tables, pictures, comparisons) knows them in this form alone. */

static void set(json_t *json, const char *name, json_t *value)
{
    json_object_set_new(json, name, value);
}

static json_t *json_problem(const char *problem)
{
    return problem && *problem ? json_text(problem) : json_null();
}

/* What was not measured is null, not 0. */
static json_t *json_known(double value)
{
    return value > 0.0 ? json_measure(value) : json_null();
}

static json_t *json_bytes(uint64_t bytes)
{
    return json_integer((json_int_t)bytes);
}

static const char *type_name(const struct bench_shape *shape, int type)
{
    return type ? format_name(type - CLATTN_AS_FP32) : clattn_dtype_name(shape->dtype);
}

static void set_shape(json_t *json, const struct bench_shape *shape)
{
    const struct clattn_shape *s = &shape->sizes;
    set(json, "grid", json_problem(shape->grid));
    set(json, "pass", json_string(pass_name(shape->pass)));
    set(json, "dtype", json_string(clattn_dtype_name(shape->dtype)));
    set(json, "batch", json_integer((json_int_t)s->batch));
    set(json, "heads", json_integer((json_int_t)s->heads));
    set(json, "kv_heads", json_integer((json_int_t)s->kv_heads));
    set(json, "n_q", json_integer((json_int_t)s->n_q));
    set(json, "n_kv", json_integer((json_int_t)s->n_kv));
    set(json, "d", json_integer(shape->d));
    set(json, "d_v", json_integer(shape->d_v));
    set(json, "causal", json_boolean(shape->causal));
    set(json, "k_format", json_string(type_name(shape, shape->k_type)));
    set(json, "v_format", json_string(type_name(shape, shape->v_type)));
    set(json, "page_keys", json_integer((json_int_t)shape->page_keys));
}

/* The score modifications of the row, with their numbers; null where it has none of that kind. */
static void set_modifications(json_t *json, const struct bench_shape *shape)
{
    const bool window = shape->features & CLATTN_WINDOW, blocks = shape->features & CLATTN_BLOCK_MASK;
    json_t *names = json_features_of(shape->features);
    if (shape->texts->score_mod)
        json_array_append_new(names, json_text("score_mod"));
    if (shape->texts->mask_mod)
        json_array_append_new(names, json_text("mask_mod"));
    set(json, "features", names);
    set(json, "window",
        window ? json_pack("[I, I]", (json_int_t)shape->window_left, (json_int_t)shape->window_right) : json_null());
    set(json, "block_size", blocks ? json_pack("[i, i]", shape->block_q, shape->block_kv) : json_null());
    set(json, "block_density", blocks ? json_measure(shape->block_density) : json_null());
}

/* Median, extremes and quartiles. */
static void set_times(json_t *json, const struct statistics *ms)
{
    const struct {
        const char *name;
        double value;
    } times[] = {{"median_ms", ms->median},
                 {"min_ms", ms->minimum},
                 {"max_ms", ms->maximum},
                 {"q1_ms", ms->lower},
                 {"q3_ms", ms->upper}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        set(json, times[i].name, json_known(times[i].value));
}

/* Null where there were too few repetitions, or none. */
static void set_disturbed(json_t *json, const char *name, double disagreement, bool measured)
{
    const bool known = measured && disagreement >= 0.0;
    set(json, name, known ? json_boolean(steady_is_disturbed(disagreement)) : json_null());
}

static void set_speed(json_t *json, const struct bench_row *row)
{
    set_times(json, &row->ms);
    set(json, "repetitions", json_integer(row->repetitions));
    set(json, "rounds", json_integer(row->rounds));
    set_disturbed(json, "disturbed", row->disagreement, row->ms.median > 0.0);
    set(json, "calls", json_integer(row->calls));
    set(json, "problem", json_problem(row->problem));
    set(json, "enqueue_us", json_known(row->enqueue_us.median));
    set(json, "enqueue_min_us", json_known(row->enqueue_us.minimum));
    set(json, "first_call_ms", json_measure(row->first_call_ms));
    set(json, "tflops", json_known(bench_tflops(row)));
    set(json, "peak_of", json_string(bench_unit_name(row->unit)));
    set(json, "peak_tflops", json_known(row->peak_tflops.median));
    set(json, "share_of_peak", json_known(bench_share(row)));
    set(json, "share_problem", json_problem(bench_share_problem(row)));
    set(json, "copy_gbps", json_known(row->copy_gbps));
    set(json, "read_gbps", json_known(row->read_gbps));
    set(json, "share_of_read", json_known(bench_share_of_read(row)));
    set(json, "intensity", json_known(bench_intensity(row)));
    set(json, "limit_tflops", json_known(bench_limit(row)));
    set(json, "limited_by",
        bench_limit(row) > 0.0 ? json_string(bench_is_bound_by_memory(row) ? "copy" : "peak") : json_null());
    set(json, "share_of_limit", json_known(bench_share_of_limit(row)));
}

static void set_memory(json_t *json, const struct bench_row *row)
{
    set(json, "tensor_bytes", json_bytes(row->tensor_bytes));
    set(json, "extra_bytes", json_bytes(row->extra_bytes));
    set(json, "peak_bytes", json_bytes(row->tensor_bytes + row->extra_bytes));
    set(json, "standard_bytes", json_bytes(row->standard_bytes));
    set(json, "standard_peak_bytes",
        row->standard_bytes ? json_bytes(row->tensor_bytes + row->standard_bytes) : json_null());
    set(json, "traffic_bytes", json_known(row->traffic.flash));
    set(json, "standard_traffic_bytes", json_known(row->traffic.standard));
    set(json, "paper_bytes", json_known(row->traffic.paper));
    set(json, "least_bytes", json_known(row->traffic.least));
}

static void set_standard(json_t *json, const struct bench_row *row)
{
    set(json, "standard_ms", json_known(row->standard_ms.median));
    set(json, "standard_min_ms", json_known(row->standard_ms.minimum));
    set(json, "standard_max_ms", json_known(row->standard_ms.maximum));
    set(json, "standard_repetitions", json_integer(row->standard_repetitions));
    set_disturbed(json, "standard_disturbed", row->standard_disagreement, row->standard_ms.median > 0.0);
    set(json, "standard_problem", json_problem(row->standard_problem));
}

json_t *bench_json_row(const struct session *session, const struct bench_row *row)
{
    json_t *json = json_object();
    set(json, "device", json_text(session->capabilities->device_name));
    set(json, "driver", json_text(session->capabilities->driver_version));
    set(json, "path", json_string(row->plan.skeleton));
    set_shape(json, &row->shape);
    set_speed(json, row);
    set_standard(json, row);
    set_memory(json, row);
    set(json, "b_r", json_integer(row->plan.b_r));
    set(json, "b_c", json_integer(row->plan.b_c));
    set(json, "splits", json_integer(row->plan.splits));
    set(json, "work_group_size", json_integer(row->plan.work_group_size));
    set(json, "knobs", json_text(row->plan.knobs));
    set_modifications(json, &row->shape);
    return json;
}
