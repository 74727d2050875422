#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Trains a small GPT on the CPU twice, with PyTorch's attention and with clattn's: how far the loss curves are apart,
and the time.

    training.py [--steps 200] [--n 1024] [--threads 2]

The text is what this interpreter's library says of itself, by bytes. Both runs begin with the same weights and meet the
same pieces. They take turns of 5 steps, so that load on the machine meets both. Times are CPU time of the process, all
threads, and time on the clock. With several threads CPU time has those of PyTorch in it that wait for work while clattn
has it.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in (('--steps', 200), ('--n', 1024), ('--threads', 2), ('--layers', 4), ('--width', 256),
                          ('--heads', 4)):
        parser.add_argument(name, type=int, default=default)
    return parser.parse_args()


def text(torch):
    folder = pathlib.Path(os.__file__).parent
    return torch.tensor(
        list(b''.join((folder / name).read_bytes() for name in ('os.py', 'typing.py', 'ast.py', 'ssl.py'))))


def model(given, attention, torch):
    """Byte embeddings, blocks of attention and a perceptron with norms before them, and scores of the next byte."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(given.width) for _ in range(2))
            self.qkv, self.out = nn.Linear(given.width, 3 * given.width), nn.Linear(given.width, given.width)
            self.inner = nn.Sequential(nn.Linear(given.width, 4 * given.width), nn.GELU(),
                                       nn.Linear(4 * given.width, given.width))

        def forward(self, x):
            b, n, width = x.shape
            parts = self.qkv(self.norms[0](x)).view(b, n, 3, given.heads, width // given.heads)
            q, k, v = (part.transpose(1, 2) for part in parts.unbind(2))
            o = attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, width)
            x = x + self.out(o)
            return x + self.inner(self.norms[1](x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.bytes, self.places = nn.Embedding(256, given.width), nn.Embedding(given.n, given.width)
            self.blocks = nn.Sequential(*(Block() for _ in range(given.layers)))
            self.norm, self.next = nn.LayerNorm(given.width), nn.Linear(given.width, 256)

        def forward(self, x):
            return self.next(self.norm(self.blocks(self.bytes(x) + self.places.weight[:x.shape[1]])))

    torch.manual_seed(0)
    return Gpt()


class Run:
    """One training: a model, its optimiser, its losses and what its steps took."""
    def __init__(self, given, attention, torch):
        self.model, self.torch = model(given, attention, torch), torch
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.losses, self.seconds, self.clock = [], [], []

    def step(self, piece):
        start, clock = time.process_time(), time.perf_counter()
        scores = self.model(piece[None, :-1])
        loss = self.torch.nn.functional.cross_entropy(scores[0], piece[1:])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.losses.append(loss.item())
        self.seconds.append(time.process_time() - start)
        self.clock.append(time.perf_counter() - clock)


def main():
    given = arguments()
    os.environ['POCL_MAX_PTHREAD_COUNT'] = str(given.threads)
    import torch
    import clattn
    torch.set_num_threads(given.threads)
    runs = {
        'torch': Run(given, torch.nn.functional.scaled_dot_product_attention, torch),
        'clattn': Run(given, clattn.scaled_dot_product_attention, torch)
    }
    data = text(torch)
    places = torch.randint(len(data) - given.n - 1, (given.steps, ),
                           generator=torch.Generator().manual_seed(1)).tolist()
    for first in range(0, given.steps, 5):
        for run in runs.values():
            for place in places[first:first + 5]:
                run.step(data[place:place + given.n + 1])
        print(first,
              {name: (round(run.losses[-1], 4), round(statistics.median(run.seconds), 3))
               for name, run in runs.items()},
              file=sys.stderr,
              flush=True)
    apart = max(abs(a - b) for a, b in zip(*(run.losses for run in runs.values())))
    # The first steps compile, or find what is compiled.
    totals = {name: sum(run.seconds[5:]) for name, run in runs.items()}
    clocks = {name: sum(run.clock[5:]) for name, run in runs.items()}
    print(
        json.dumps({
            **vars(given), 'loss_first': runs['torch'].losses[0], 'loss_last': runs['torch'].losses[-1],
            'curves_apart': apart,
            **{f'cpu_s_{name}': round(s, 2)
               for name, s in totals.items()}, 'ratio': round(totals['clattn'] / totals['torch'], 3),
            'ratio_on_the_clock': round(clocks['clattn'] / clocks['torch'], 3), 'torch': torch.__version__,
            'device': clattn.default_device().name
        }))


if __name__ == '__main__':
    main()
