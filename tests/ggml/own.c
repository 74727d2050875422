/* SPDX-License-Identifier: BSD-2-Clause */
#include "own.h"
#include <ggml-cpu.h>

bool own_result(struct ggml_context *arena, struct ggml_tensor *node)
{
    struct ggml_cgraph *graph = ggml_new_graph(arena);
    ggml_build_forward_expand(graph, node);
    return ggml_graph_compute_with_ctx(arena, graph, 2) == GGML_STATUS_SUCCESS;
}
