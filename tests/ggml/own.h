/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef GGML_OWN_H
#define GGML_OWN_H

#include <ggml.h>

/* Has ggml's CPU back end compute the node. false: this is the stand-in, which computes nothing. */
bool own_result(struct ggml_context *arena, struct ggml_tensor *node);

#endif
