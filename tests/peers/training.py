#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Trains a small GPT on the CPU twice, with PyTorch's attention and with clattn's: how far the loss curves are apart,
and the time.

    training.py [--steps 200] [--n 1024] [--threads 2] [--kinds default,short]

The text is what this interpreter's library says of itself, by bytes. All runs begin with the same weights and meet the
same pieces. Several threads of PyTorch wait for work in a loop for some milliseconds, for some microseconds, or not at
all, and threads have their processors or go where the system puts them (KINDS, of which --kinds takes some): each
attention has a process of each kind, and its best one counts; the ratio with nothing set stands beside that. They take
turns of 5 steps, so that load on the machine meets all; who waits for its turn is stopped, loops and all. Beside times
on the clock there is CPU time, which other load moves least: of those that wait passively, since a loop takes CPU time
for nothing. Freed memory stays with all of them (KEEPS_MEMORY): by where some small block lies the C library gives it
to the system or not, and it comes back by page faults, up to 28 ms of a step of either attention.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ATTENTIONS = ('torch', 'clattn')
SHORT, PASSIVE = {'GOMP_SPINCOUNT': '1000'}, {'OMP_WAIT_POLICY': 'passive'}
KINDS = {
    'torch': {'default': {}, 'short': SHORT, 'passive': PASSIVE, 'placed': {'OMP_PROC_BIND': 'true'}},
    'clattn': {'default': {}, 'short': SHORT, 'passive': PASSIVE, 'kept': {'CLATTN_AFFINITY': 'keep'}}
}
KEEPS_MEMORY = {'MALLOC_MMAP_THRESHOLD_': str(2**25), 'MALLOC_TRIM_THRESHOLD_': str(2**32)}


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in (('--steps', 200), ('--n', 1024), ('--threads', 2), ('--layers', 4), ('--width', 256),
                          ('--heads', 4)):
        parser.add_argument(name, type=int, default=default)
    kinds = list(dict.fromkeys(kind for of in KINDS.values() for kind in of))
    parser.add_argument('--kinds',
                        help=f'with several threads: some of {",".join(kinds)} (default: all); with one: passive',
                        type=lambda names: [kinds[kinds.index(name)] for name in names.split(',')])
    parser.add_argument('--child', choices=ATTENTIONS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not all(kinds_of(given, attention) for attention in ATTENTIONS):
        parser.error(f'--kinds {",".join(given.kinds)}: each attention needs one of its own, such as default')
    return given


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

    def step(self, piece):
        start, clock = time.process_time(), time.perf_counter()
        scores = self.model(piece[None, :-1])
        loss = self.torch.nn.functional.cross_entropy(scores[0], piece[1:])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item(), time.process_time() - start, time.perf_counter() - clock


def train(given):
    """A process of one run: for each line of input, so many steps; losses, seconds of CPU and clock of each."""
    import torch
    import clattn
    torch.set_num_threads(given.threads)
    attention = {'torch': torch.nn.functional, 'clattn': clattn}[given.child].scaled_dot_product_attention
    run, data = Run(given, attention, torch), text(torch)
    places = iter(
        torch.randint(len(data) - given.n - 1, (given.steps, ), generator=torch.Generator().manual_seed(1)).tolist())
    print(json.dumps([torch.__version__, clattn.default_device().name]), flush=True)
    for line in sys.stdin:
        pieces = (data[place:place + given.n + 1] for _, place in zip(range(int(line)), places))
        print(json.dumps([run.step(piece) for piece in pieces]), flush=True)


def kinds_of(given, attention):
    """One thread waits for no other."""
    if given.threads == 1:
        return ['passive']
    return [kind for kind in KINDS[attention] if given.kinds is None or kind in given.kinds]


class Child:
    """Such a process, at the other end of two pipes."""
    def __init__(self, attention, kind, threads):
        environment = {**os.environ, **KEEPS_MEMORY, **KINDS[attention][kind], 'POCL_MAX_PTHREAD_COUNT': str(threads)}
        self.process = subprocess.Popen([sys.executable, *sys.argv, '--child', attention],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        text=True,
                                        env=environment)
        self.about, self.losses, self.cpu, self.clock = json.loads(self.process.stdout.readline()), [], [], []
        self.process.send_signal(signal.SIGSTOP)

    def train(self, steps):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(f'{steps}\n')
        self.process.stdin.flush()
        for loss, cpu, clock in json.loads(self.process.stdout.readline()):
            self.losses.append(loss)
            self.cpu.append(cpu)
            self.clock.append(clock)
        self.process.send_signal(signal.SIGSTOP)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()

    def total(self, seconds):
        """The first steps compile, or find what is compiled."""
        return sum(seconds[5:])


def main():
    given = arguments()
    if given.child:
        train(given)
        return
    runs = {(attention, kind): Child(attention, kind, given.threads)
            for attention in ATTENTIONS
            for kind in kinds_of(given, attention)}
    for first in range(0, given.steps, 5):
        for run in runs.values():
            run.train(min(5, given.steps - first))
        print(first, {'-'.join(key): round(statistics.median(run.clock), 4)
                      for key, run in runs.items()},
              file=sys.stderr,
              flush=True)
    totals = {kind: {'-'.join(key): run.total(getattr(run, kind)) for key, run in runs.items()}
              for kind in ('clock', 'cpu')}
    best = {}
    compared = (('clock', 'clock', None), ('clock_default', 'clock', 'default'), ('cpu', 'cpu', 'passive'))
    for name, time_of, of in compared:
        counted = [[run.total(getattr(run, time_of)) for (of_whom, kind), run in runs.items()
                    if of_whom == attention and of in (None, kind)] for attention in ATTENTIONS]
        if all(counted):
            best[name] = [min(totals) for totals in counted]
    torch_run, clattn_run = (next(run for (of_whom, _), run in runs.items() if of_whom == attention)
                             for attention in ATTENTIONS)
    named = {key: value for key, value in vars(given).items() if key != 'child'}
    print(
        json.dumps({
            **named, 'loss_first': torch_run.losses[0], 'loss_last': torch_run.losses[-1],
            'curves_apart': max(abs(a - b) for a, b in zip(torch_run.losses, clattn_run.losses)),
            **{f'{kind}_s': {key: round(s, 2)
                             for key, s in named.items()}
               for kind, named in totals.items()},
            **{f'ratio_{name}': round(b / a, 3)
               for name, (a, b) in best.items()}, 'torch': torch_run.about[0], 'device': torch_run.about[1]
        }))
    for run in runs.values():
        run.end()


if __name__ == '__main__':
    main()
