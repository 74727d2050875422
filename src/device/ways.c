/* SPDX-License-Identifier: BSD-2-Clause */
#include "device/ways.h"
#include "device/os.h"
#include "device/report.h"
#include "plan/matrix_units.h"
#include "plan/ways.h"
#include <stdio.h>
#include <string.h>

static const char *const others[] = {CLA_WAY_WGMMA, CLA_WAY_BF16_PAIRS, CLA_WAY_BF16_TILES};
enum { OTHERS = sizeof others / sizeof *others };

/* The way at this place, NULL behind the last: the others, then units that a probe opens, each by its first row. */
static const char *way(size_t place)
{
    if (place < OTHERS)
        return others[place];
    place -= OTHERS;
    for (const struct cla_matrix_unit *unit = cla_matrix_units; unit->name; unit++) {
        const bool again = unit > cla_matrix_units && unit[-1].name && strcmp(unit->name, unit[-1].name) == 0;
        if (unit->trust == CLA_UNIT_PROBED && !again && place-- == 0)
            return unit->name;
    }
    return NULL;
}

static bool is_way(const char *word)
{
    for (size_t i = 0; way(i); i++)
        if (strcmp(word, way(i)) == 0)
            return true;
    return false;
}

void cla_warn_of_unknown_ways(const struct clattn_log *log)
{
    char word[64], list[256] = "";
    for (size_t i = 0; way(i); i++) {
        const size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", i > 0 ? ", " : "", way(i));
    }
    for (size_t i = 0; cla_os_disabled_word(i, word, sizeof word); i++)
        if (!is_way(word))
            cla_say(log, CLATTN_LOG_WARNING, "CLATTN_DISABLE has \"%s\", which turns nothing off: its words are %s",
                    word, list);
}
