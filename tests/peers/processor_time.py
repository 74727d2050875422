#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Attention in bf16 beside PyTorch's on a CPU where other programs run, too: processor time of all threads, not the clock's.

    OMP_WAIT_POLICY=passive processor_time.py [SECONDS]

Calls of both follow each other; of each the least counts. 32 heads of 1024 rows, 4 of 4096, 1 of 16384. A row: TFLOP a second of one
core's time, by the usual count, and PyTorch's time divided by clattn's."""
import itertools
import sys
import time

import clattn
import torch

HEADS = {1024: 32, 4096: 4, 16384: 1}
CELLS = list(itertools.product(('forward', 'backward'), HEADS, (64, 128), (False, True)))


def seconds(call):
    begin = time.process_time()
    call()
    return time.process_time() - begin


def calls(backward, n, d, causal):
    """Of clattn, and of PyTorch."""
    inputs = [torch.randn(1, HEADS[n], n, d, dtype=torch.bfloat16, requires_grad=backward) for _ in range(3)]
    for attention in (clattn.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention):
        if not backward:
            yield lambda attention=attention: attention(*inputs, is_causal=causal)
            continue
        o = attention(*inputs, is_causal=causal)
        yield lambda o=o: torch.autograd.grad(o, inputs, torch.ones_like(o), retain_graph=True)


def main():
    end, least = time.time() + float(sys.argv[1] if len(sys.argv) > 1 else 240), {}
    for cell in itertools.cycle(CELLS):
        if time.time() > end and len(least) == len(CELLS):
            break
        with torch.set_grad_enabled(cell[0] == 'backward'):
            both = list(calls(cell[0] == 'backward', *cell[1:]))
            for _ in range(1 if cell in least else 2):
                now = [seconds(call) for call in both]
                least[cell] = [min(pair) for pair in zip(least.get(cell, now), now)]
    for (name, n, d, causal), (ours, theirs) in least.items():
        flop = 4 * HEADS[n] * n * n * d * (0.5 if causal else 1) * (2.5 if name == 'backward' else 1)
        print(f'{name} n {n} d {d}{" causal" if causal else ""}: clattn {flop / ours * 1e-12:.3f}, PyTorch {flop / theirs * 1e-12:.3f}, '
              f'ratio {theirs / ours:.2f}')


if __name__ == '__main__':
    main()
