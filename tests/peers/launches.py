#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a kernel of CUDA costs that computes nothing, on a stream and in a graph: the interval between two of them, by the
device's clock. launches.c says the same of OpenCL. It needs CuPy."""
import statistics

import cupy

CALLS, TURNS = 100, 9
EMPTY = cupy.RawKernel('extern "C" __global__ void empty(unsigned long long *o) { if (o[3] == 77) o[4] = 1; }', "empty")
WAIT = cupy.RawKernel('extern "C" __global__ void wait(long long n) { long long t = clock64(); while (clock64() - t < n); }', "wait")


def interval(stream, run, wait):
    times = []
    for _ in range(TURNS):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        if wait:
            WAIT((1,), (1,), (8000000,))
        first.record(stream)
        run()
        last.record(stream)
        last.synchronize()
        times.append(cupy.cuda.get_elapsed_time(first, last) * 1e3 / CALLS)
    return statistics.median(times)


def main():
    memory = cupy.zeros(100, dtype=cupy.uint64)
    for groups in (1, 132, 1056):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:

            def calls():
                for _ in range(CALLS):
                    EMPTY((groups,), (128,), (memory,))

            calls()
            stream.synchronize()
            stream.begin_capture()
            calls()
            graph = stream.end_capture()
            graph.launch(stream)
            stream.synchronize()
            print(f"{groups:4} work-groups: {interval(stream, calls, True):.2f} us on a stream, "
                  f"{interval(stream, lambda: graph.launch(stream), False):.2f} in a graph")


main()
