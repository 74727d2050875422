/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify_skeletons.h"
#include <clattn/problem.h>
#include <string.h>

enum { ANY = CLATTN_MAX_D, MATRIX = 256, FUSED = 128 };

const struct verify_skeleton verify_skeletons[] = {
    /* name, backward, CPU, others, slow on CPUs, declines, any order, chunks, d */
    {"forward_simt", false, true, true, true, false, false, true, ANY},
    {"forward_cpu", false, true, false, false, false, false, true, ANY},
    {"forward_matrix", false, false, true, false, true, false, true, MATRIX},
    {"forward_hopper", false, false, true, false, true, false, false, MATRIX},
    {"backward_simt", true, true, true, true, false, false, true, ANY},
    {"backward_cpu", true, true, false, false, false, false, true, ANY},
    {"backward_matrix", true, false, true, false, true, false, true, MATRIX},
    {"backward_hopper", true, false, true, false, true, false, false, MATRIX},
    {"backward_fused", true, false, true, false, true, true, false, FUSED},
    {.name = NULL}};

const struct verify_skeleton *verify_skeleton_of(const char *name)
{
    static const char suffix[] = "_emulated";
    const size_t end = sizeof suffix - 1;
    size_t length = name ? strlen(name) : 0;
    if (length > end && !strcmp(name + length - end, suffix))
        length -= end;
    for (const struct verify_skeleton *row = verify_skeletons; row->name && name; row++)
        if (strlen(row->name) == length && !memcmp(row->name, name, length))
            return row;
    return NULL;
}
