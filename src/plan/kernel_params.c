/* SPDX-License-Identifier: BSD-2-Clause */
#include "plan/kernel_params.h"
#include "plan/checked.h"

/* A call without heads has numbers of 0, and no kernels. */
static struct cla_divisor divisor(int64_t number)
{
    return cla_divisor_of((int32_t)cla_smaller(cla_larger(number, 1), INT32_MAX));
}

void cla_forward_params_divide(struct cla_forward_params *params, int b_r)
{
    params->pack = divisor(params->pack.number);
    params->by_heads = divisor(params->heads);
    params->by_splits = divisor(params->splits);
    params->by_group = divisor(params->heads / cla_larger(params->kv_heads, 1));
    params->by_part = divisor(cla_ceil_div(params->n_q, b_r) * params->heads * params->batch);
}
