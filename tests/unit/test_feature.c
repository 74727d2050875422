/* SPDX-License-Identifier: BSD-2-Clause */
#include "attention/operands.h"
#include "plan/features/feature.h"
#include "support/unit.h"
#include <string.h>

/* The rows that the library knows by name are where it looks for them. */
static void operands_are_rows(void **state)
{
    (void)state;
    static const struct {
        int which;
        const char *name;
    } rows[] = {{CLA_BIAS, "score.bias"},
                {CLA_MASK, "score.mask"},
                {CLA_BLOCK_MASK, "score.block_mask"},
                {CLA_BLOCK_OFFSETS, "score.block_offsets"},
                {CLA_BLOCK_COLUMNS, "score.block_columns"},
                {CLA_KEY_LENGTHS, "score.key_lengths"},
                {CLA_CU_Q, "score.cu_seqlens_q"},
                {CLA_CU_KV, "score.cu_seqlens_kv"},
                {CLA_SINKS, "score.sinks"},
                {CLA_DATA, "score.data"},
                {CLA_Q, "q"},
                {CLA_STATE, "state"},
                {CLA_WORKSPACE, "workspace"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(cla_operand_name(rows[i].which), rows[i].name);
}

/* Each bit is one feature's, and none is one of the user's functions. */
static void bits_are_apart(void **state)
{
    (void)state;
    unsigned all = 0;
    for (int i = 0; i < cla_feature_count; i++) {
        assert_int_equal(all & cla_features[i].bit, 0);
        all |= cla_features[i].bit;
    }
    assert_int_equal(cla_features_known() & (CLA_FEATURE_SCORE_MOD | CLA_FEATURE_MASK_MOD), 0);
    assert_int_equal(cla_features_known() & 1023, 1023);
}

/* No two tensors or numbers of the kernels' parameters share a place, and all lie within what kernels take. */
static void places_are_apart(void **state)
{
    (void)state;
    static bool taken[sizeof(struct cla_score_params)];
    const struct cla_feature *of;
    memset(taken, 0, sizeof taken);
    for (int i = 0; cla_feature_tensor(i, &of); i++) {
        if (!cla_feature_tensor_is_argument(i))
            continue;
        const size_t at = cla_feature_tensor_at(i), bytes = cla_feature_tensor_bytes(i);
        assert_true(at + bytes <= cla_score_params_bytes());
        for (size_t n = at; n < at + bytes; n++) {
            assert_false(taken[n]);
            taken[n] = true;
        }
    }
}

static void assert_defines(unsigned features, const char *line, bool there)
{
    struct cla_text text = {0};
    cla_features_define(features, &text);
    assert_false(text.failed);
    assert_int_equal(strstr(text.data, line) != NULL, there);
    cla_text_free(&text);
}

static void programs_have_their_features_alone(void **state)
{
    (void)state;
    assert_defines(0, "#define CLATTN_ALIBI 0\n", true);
    assert_defines(0, "score_alibi", false);
    assert_defines(CLATTN_ALIBI, "#define CLATTN_ALIBI 1\n", true);
    assert_defines(CLATTN_ALIBI, "#define CLATTN_BUFFER_PARAMETERS , __global const float *score_alibi\n", true);
    assert_defines(CLATTN_MASK, "#define CLATTN_EACH_PAIR_HIDE(X) X(mask, EVEN)\n#define CLATTN_HAS_PAIR_HIDE 1\n",
                   true);
    assert_defines(CLATTN_WINDOW, "#define CLATTN_EACH_END(X) X(window, EVEN)\n", true);
    assert_defines(CLATTN_BLOCK_MASK, "score_block_mask", true);
    assert_defines(CLATTN_BLOCK_MASK, "score_block_offsets", false);
    assert_defines(CLA_FEATURE_SCORE_MOD, "#define CLATTN_SCORE_MOD 1\n#define CLATTN_MASK_MOD 0\n", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operands_are_rows), cmocka_unit_test(bits_are_apart),
                                       cmocka_unit_test(places_are_apart),
                                       cmocka_unit_test(programs_have_their_features_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
