/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The places that `clattn run` knows features by, in the library's table of them. */
#include "plan/features/feature.h"
#include "run/options.h"
#include "support/unit.h"

/* A feature that gains a number moves those behind it: `run` knows some by their place in the table. */
static void features_stand_where_run_looks(void **state)
{
    (void)state;
    static const struct {
        int place;
        const char *name;
    } files[] = {{SCORE_ALIBI, "alibi"},
                 {SCORE_BIAS, "bias"},
                 {SCORE_MASK, "mask"},
                 {SCORE_BLOCK_MASK, "block_mask"},
                 {SCORE_BLOCK_INDPTR, "block_offsets"},
                 {SCORE_BLOCK_INDICES, "block_columns"},
                 {SCORE_KEY_LENGTHS, "key_lengths"},
                 {SCORE_CU_SEQLENS_Q, "cu_seqlens_q"},
                 {SCORE_CU_SEQLENS_KV, "cu_seqlens_kv"},
                 {SCORE_SINKS, "sinks"},
                 {SCORE_KV_PAGES, "pages"},
                 {SCORE_KV_PAGE_INDPTR, "page_offsets"},
                 {SCORE_GRAD_LSE, "d_lse"},
                 {SCORE_ROW_SHIFTS, "row_shifts"},
                 {SCORE_QUERY_LENGTHS, "query_lengths"},
                 {SCORE_TREE_MASK, "tree_mask"},
                 {SCORE_BIAS_SLOPES, "bias_slopes"}},
      numbers[] = {{SCORE_SOFTCAP, "softcap"}, {SCORE_DROPOUT, "dropout_p"}, {SCORE_TREE_KEYS, "tree_keys"}};
    const struct cla_feature *of;
    EACH (i, files)
        assert_string_equal(cla_feature_tensor(files[i].place, &of)->name, files[i].name);
    EACH (i, numbers)
        assert_string_equal(cla_feature_number(numbers[i].place, &of)->name, numbers[i].name);
    assert_string_equal(cla_feature_setting(SCORE_BLOCK_SIZE, &of)->name, "block_q");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(features_stand_where_run_looks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
