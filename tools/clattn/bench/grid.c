/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/grid.h"
#include "bench/keys.h"
#include "opencl_select.h"
#include <inttypes.h>
#include <stdlib.h>

static bool listed(const struct option_list *list, int64_t value)
{
    for (int i = 0; i < list->count; i++)
        if (list->values[i] == value)
            return true;
    return !list->count;
}

static bool add(struct bench_rows *rows, const struct bench_shape *shape)
{
    struct bench_shape *items = realloc(rows->items, (size_t)(rows->count + 1) * sizeof *items);
    if (!items)
        return false;
    rows->items = items;
    rows->items[rows->count++] = *shape;
    return true;
}

/* What is the same for all rows. */
static void add_modifications(const struct values *values, struct bench_shape *shape)
{
    for (int i = 0; i < values->features.count; i++)
        shape->features |= (unsigned)values->features.values[i];
    if (values->window.given) {
        shape->features |= CLATTN_WINDOW;
        shape->window_left = values->window.whole[0];
        shape->window_right = values->window.whole[1];
    }
    if (values->block_density >= 0.0) {
        shape->features |= CLATTN_BLOCK_MASK;
        shape->block_density = values->block_density;
        shape->block_q = values->block_size.given ? (int)values->block_size.whole[0] : 64;
        shape->block_kv = values->block_size.given ? (int)values->block_size.whole[1] : 64;
    }
}

static bool add_passes(struct bench_rows *rows, const struct values *values, struct bench_shape shape)
{
    const int pass = values->pass ? values->pass : PASS_FORWARD;
    bool enough = true;
    if (pass & PASS_FORWARD)
        enough = add(rows, &shape);
    shape.pass = CLATTN_BACKWARD;
    if (pass & PASS_BACKWARD)
        enough = enough && add(rows, &shape);
    return enough;
}

/* One shape in each type, mask and direction. */
static bool add_variants(struct bench_rows *rows, const struct values *values, struct bench_shape shape, int causal)
{
    const struct option_list fp32 = {.count = 1, .values = {CLATTN_FP32}};
    const struct option_list *dtypes = values->dtype.count ? &values->dtype : &fp32;
    bool enough = true;
    add_modifications(values, &shape);
    for (int i = 0; i < dtypes->count; i++) {
        shape.dtype = (enum clattn_dtype)dtypes->values[i];
        for (int on = 0; on < 2; on++) {
            shape.causal = on;
            if (causal & (on ? CAUSAL_ON : CAUSAL_OFF))
                enough = enough && add_passes(rows, values, shape);
        }
    }
    return enough;
}

static struct bench_shape square(const char *grid, int64_t batch, int64_t heads, int64_t n, int d)
{
    return (struct bench_shape){.grid = grid,
                                .sizes = {.batch = batch, .heads = heads, .kv_heads = heads, .n_q = n, .n_kv = n},
                                .d = d,
                                .d_v = d};
}

/* On a GPU 16384 tokens and a hidden size of 2048, as in FlashAttention's papers; a CPU gets one batch of 8 heads. */
static bool add_flash(struct bench_rows *rows, const struct values *values, bool cpu)
{
    bool enough = true;
    for (int d = 64; d <= 128; d *= 2) {
        for (int64_t n = 512; n <= (cpu ? 8192 : 16384); n *= 2) {
            if (!listed(&values->d, d) || !listed(&values->n, n))
                continue;
            const struct bench_shape shape = square("flash", cpu ? 1 : 16384 / n, cpu ? 8 : 2048 / d, n, d);
            enough = enough && add_variants(rows, values, shape, values->causal ? values->causal : CAUSAL_BOTH);
        }
    }
    return enough;
}

/* One head, since memory is proportional to them; standard attention takes as many at once as it can address. */
static bool add_memory(struct bench_rows *rows, const struct values *values, bool cpu)
{
    (void)cpu;
    bool enough = true;
    for (int64_t n = 128; n <= 65536; n *= 2)
        if (listed(&values->d, 64) && listed(&values->n, n))
            enough = enough && add_variants(rows, values, square("memory", 1, 1, n, 64),
                                            values->causal ? values->causal : CAUSAL_OFF);
    return enough;
}

/* From one sequence of 8192 keys, by 32 heads that share 8, one thing after the other is changed: rows, heads of a
 * group, head dimensions (576/512 is latent attention's), lengths, formats, pages. */
static bool add_decode_axes(struct bench_rows *rows, const struct values *values)
{
    static const struct {
        int n_q, heads, kv_heads, d, d_v, n_kv, type, page_keys;
    } cells[] = {
        {2, 32, 8, 128, 128, 8192, 0, 0},
        {4, 32, 8, 128, 128, 8192, 0, 0},
        {8, 32, 8, 128, 128, 8192, 0, 0},
        {1, 32, 32, 128, 128, 8192, 0, 0},
        {1, 32, 4, 128, 128, 8192, 0, 0},
        {1, 32, 2, 128, 128, 8192, 0, 0},
        {1, 32, 8, 64, 64, 8192, 0, 0},
        {1, 16, 1, 576, 512, 8192, 0, 0},
        {1, 32, 8, 128, 128, 131072, 0, 0},
        {1, 32, 8, 128, 128, 8192, CLATTN_AS_INT8, 0},
        {1, 32, 8, 128, 128, 8192, CLATTN_AS_INT4, 0},
        {1, 32, 8, 128, 128, 8192, CLATTN_AS_FP8_E4M3, 0},
        {1, 32, 8, 128, 128, 8192, CLATTN_AS_FP8_E5M2, 0},
        {1, 32, 8, 128, 128, 8192, CLATTN_AS_Q8_0, 0},
        {1, 32, 8, 128, 128, 8192, CLATTN_AS_Q4_0, 0},
        {1, 32, 8, 128, 128, 8192, 0, 16},
        {1, 32, 8, 128, 128, 8192, 0, 64},
        {1, 32, 8, 128, 128, 8192, CLATTN_AS_Q8_0, 64},
    };
    bool enough = true;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        struct bench_shape shape = square("decode", 1, cells[i].heads, cells[i].n_kv, cells[i].d);
        shape.d_v = cells[i].d_v;
        shape.sizes.n_q = cells[i].n_q;
        shape.sizes.kv_heads = cells[i].kv_heads;
        shape.k_type = shape.v_type = cells[i].type;
        shape.page_keys = cells[i].page_keys;
        if (values->pass && values->pass != PASS_FORWARD && bench_keys_are_apart(&shape))
            continue;
        if (values->pass && values->pass != PASS_FORWARD && shape.d > CLATTN_MAX_D)
            continue;
        if (listed(&values->d, shape.d) && listed(&values->n, shape.sizes.n_kv))
            enough = enough && add_variants(rows, values, shape, values->causal ? values->causal : CAUSAL_OFF);
    }
    return enough;
}

/* One new token against what came before, by grouped queries: 32 heads share 8. */
static bool add_decode(struct bench_rows *rows, const struct values *values, bool cpu)
{
    static const int64_t batches[] = {1, 16, 64}, lengths[] = {1024, 8192, 32768};
    bool enough = true;
    for (int i = 0; i < (cpu ? 2 : 3); i++) {
        for (int j = 0; j < (cpu ? 2 : 3); j++) {
            struct bench_shape shape = square("decode", batches[i], 32, lengths[j], 128);
            shape.sizes.n_q = 1;
            shape.sizes.kv_heads = 8;
            if (listed(&values->d, shape.d) && listed(&values->n, shape.sizes.n_kv))
                enough = enough && add_variants(rows, values, shape, values->causal ? values->causal : CAUSAL_OFF);
        }
    }
    return enough && add_decode_axes(rows, values);
}

static bool (*const grids[GRIDS])(struct bench_rows *rows, const struct values *values, bool cpu) = {
    [GRID_FLASH] = add_flash, [GRID_MEMORY] = add_memory, [GRID_DECODE] = add_decode};

static bool add_grids(struct bench_rows *rows, const struct values *values, bool cpu)
{
    const struct option_list flash = {.count = 1, .values = {GRID_FLASH}};
    const struct option_list *named = values->grids.count ? &values->grids : &flash;
    bool enough = true;
    for (int i = 0; i < named->count; i++)
        enough = enough && grids[named->values[i]](rows, values, cpu);
    return enough;
}

static bool add_shapes(struct bench_rows *rows, const struct values *values)
{
    const struct option_list d64 = {.count = 1, .values = {64}}, unsaid = {.count = 1};
    const struct option_list *d = values->d.count ? &values->d : &d64, *n = values->n.count ? &values->n : &unsaid;
    const int64_t heads = values->heads ? values->heads : 8;
    bool enough = true;
    for (int i = 0; i < d->count; i++) {
        for (int j = 0; j < n->count; j++) {
            struct bench_shape shape =
                square(NULL, values->batch ? values->batch : 1, heads, n->values[j], (int)d->values[i]);
            if (values->kv_heads)
                shape.sizes.kv_heads = values->kv_heads;
            if (values->n_q)
                shape.sizes.n_q = values->n_q;
            if (values->n_kv)
                shape.sizes.n_kv = values->n_kv;
            if (values->d_v)
                shape.d_v = (int)values->d_v;
            shape.k_type = values->k_format + CLATTN_AS_FP32;
            shape.v_type = values->v_format + CLATTN_AS_FP32;
            shape.page_keys = values->page_keys;
            enough = enough && add_variants(rows, values, shape, values->causal ? values->causal : CAUSAL_OFF);
        }
    }
    return enough;
}

bool bench_is_single(const struct values *values)
{
    return !values->grids.count && (values->n.count || values->n_q || values->n_kv);
}

static int check_modifications(const struct values *values, struct failure *failure)
{
    if (values->pass == PASS_BOTH && values->skeleton)
        return fail(failure, STATUS_USAGE, "--skeleton names a kernel of one pass: --pass forward or --pass backward");
    const int status =
        check_forced(values->skeleton, values->knobs, values->b_r, values->b_c, values->work_group_size, failure);
    if (status)
        return status;
    if (values->score_mod_grad && !values->score_mod)
        return fail(failure, STATUS_USAGE, "--score-mod-grad needs --score-mod FILE");
    if (values->score_mod && !values->score_mod_grad && (values->pass == PASS_BACKWARD || values->pass == PASS_BOTH))
        return fail(failure, STATUS_USAGE,
                    "--pass %s with --score-mod needs --score-mod-grad FILE: the derivative of score_mod by the score",
                    values->pass == PASS_BOTH ? "both" : "backward");
    if (values->splits && values->split_keys)
        return fail(failure, STATUS_USAGE, "--splits %d and --split-keys %lld: give one of them", (int)values->splits,
                    (long long)values->split_keys);
    if ((values->splits || values->split_keys) && values->pass && values->pass != PASS_FORWARD)
        return fail(failure, STATUS_USAGE, "--%s is of the forward pass: --pass forward",
                    values->splits ? "splits" : "split-keys");
    if (values->block_size.given && values->block_density < 0.0)
        return fail(failure, STATUS_USAGE, "--block-size needs --block-density X");
    return STATUS_OK;
}

int bench_check_shapes(const struct values *values, struct failure *failure)
{
    const bool apart = values->k_format >= 0 || values->v_format >= 0 || values->page_keys;
    const bool shaped =
        values->batch || values->heads || values->kv_heads || values->n_q || values->n_kv || values->d_v || apart;
    if (!bench_is_single(values) && shaped)
        return fail(failure, STATUS_USAGE,
                    values->grids.count ? "--grid has its own shapes: of these, --n, --d, --dtype and --causal select"
                                        : "a shape needs a length: --n, or --n-q and --n-kv");
    if (bench_is_single(values) && !values->n.count && (!values->n_q || !values->n_kv))
        return fail(failure, STATUS_USAGE, "--n-q and --n-kv: both, or --n");
    const int64_t heads = values->heads ? values->heads : 8;
    if (values->kv_heads && heads % values->kv_heads)
        return fail(failure, STATUS_USAGE, "--kv-heads %" PRId64 ": must divide the %" PRId64 " heads of Q",
                    values->kv_heads, heads);
    if (apart && values->pass && values->pass != PASS_FORWARD)
        return fail(failure, STATUS_USAGE, "--k-format, --v-format and --page-keys are of the forward pass");
    return check_modifications(values, failure);
}

int bench_list_rows(const struct values *values, bool cpu, struct bench_rows *rows, struct failure *failure)
{
    *rows = (struct bench_rows){.items = NULL};
    const bool enough = bench_is_single(values) ? add_shapes(rows, values) : add_grids(rows, values, cpu);
    if (enough && rows->count)
        return STATUS_OK;
    free(rows->items);
    rows->items = NULL;
    if (!enough)
        return fail(failure, STATUS_DEVICE, "no memory for the list of rows");
    return fail(
        failure, STATUS_USAGE,
        "nothing to measure: the grid has no such --n or --d. flash: d 64 and 128, n 512 to %d; memory: d 64, n "
        "128 to 65536; decode: d 64, 128 and 576, n 1024 to 131072",
        cpu ? 8192 : 16384);
}
