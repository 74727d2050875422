/* SPDX-License-Identifier: BSD-2-Clause */
#include "units.h"
#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* By the ISA documents: functions, and products of 32-bit integers. */
static bool is_slow(const char *name)
{
    static const char *const slow[] = {
        "v_exp_",       "v_s_",          "v_log_",        "v_rcp_",           "v_rsq_",
        "v_sqrt_",      "v_sin_",        "v_cos_",        "v_mul_lo_u32",     "v_mul_hi_u32",
        "v_mul_hi_i32", "v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32"};
    for (size_t n = 0; n < sizeof slow / sizeof *slow; n++)
        if (begins(name, slow[n]))
            return true;
    return false;
}

static bool is_hint(const char *name)
{
    return begins(name, "s_wait") || begins(name, "s_delay_alu") || begins(name, "s_nop") || begins(name, "s_clause");
}

enum unit unit_of(const char *name)
{
    if (begins(name, "v_wmma") || begins(name, "v_mfma"))
        return MATRIX_UNIT;
    if (begins(name, "v_"))
        return is_slow(name) ? SLOW_UNIT : VECTOR_UNIT;
    if (begins(name, "ds_"))
        return LOCAL_UNIT;
    if (begins(name, "s_"))
        return is_hint(name) ? HINT : SCALAR_UNIT;
    return MEMORY_UNIT;
}

int local_words_of(const char *name)
{
    const char *last = name;
    int words = 1;
    if (!begins(name, "ds_"))
        return 0;
    for (const char *at = name; (at = strstr(at, "_b")) && *(at += 2);)
        last = at;
    if (last > name && atoi(last) > 32)
        words = atoi(last) / 32;
    return strstr(name, "2addr") || begins(name, "ds_read2") || begins(name, "ds_write2") ? 2 * words : words;
}
