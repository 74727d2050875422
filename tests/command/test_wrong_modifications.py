#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn run` with modifications that are wrong: it says which and why, and leaves nothing behind."""
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import FILE, USAGE, product, run_tests, write_npy
from modifications import ModificationsTest


class WrongModifications(ModificationsTest):
    def refused_run(self, status, *words, says=()):
        before = sorted(os.listdir(self.folder.name))
        self.refused(status, "run", *self.names(), *words, says=says)
        self.assertEqual(sorted(os.listdir(self.folder.name)), before)

    def test_wrong_values(self):
        self.tensors()
        some = self.write("some", "<f4", (4,), self.numbers(4))
        for words, says in (
                (["--window", "3"], ["--window", "128,0"]), (["--window", "-2,0"], ["--window '-2'", "-1"]),
                (["--window", "1,2,3"], ["--window", "two"]), (["--softcap", "-1"], ["--softcap '-1'", "greater than 0"]),
                (["--dropout", "1", "--seed", "1"], ["--dropout '1'", "less than 1"]),
                (["--dropout", "0.0001", "--seed", "1"], ["--dropout '0.0001'", "1/4096"]),
                (["--dropout", "1e-60", "--seed", "1"], ["--dropout '1e-60'", "1/4096"]),
                (["--dropout", "0.5"], ["--dropout", "--seed"]), (["--seed", "5"], ["--seed", "--dropout"]),
                (["--block-mask", some], ["--block-mask", "--block-size"]), (["--block-size", "16,16"], ["--block-mask"]),
                (["--block-indptr", some, "--block-size", "16,16"], ["--block-indptr", "--block-indices"]),
                (["--block-indices", some], ["--block-indices", "--block-indptr"]),
                (["--block-indptr", some, "--block-indices", some], ["--block-indptr", "--block-size"]),
                (["--block-mask", some, "--block-indptr", some, "--block-indices", some, "--block-size", "16,16"],
                 ["--block-mask", "--block-indptr", "one"]),
                (["--block-mask", some, "--block-size", "16,24"], ["--block-size '24'", "16"]),
                (["--block-mask", some, "--block-size", "16"], ["--block-size", "two"]),
                (["--cu-seqlens-q", some], ["--cu-seqlens-kv"]), (["--cu-seqlens-kv", some], ["--cu-seqlens-q"]),
                (["--score-mod-grad", some], ["--score-mod"]), (["--data", some], ["--score-mod", "--mask-mod"]),
                (["--dq", self.path("dq.npy")], ["--dq", "--grad-out"]), (["--grad-out", some], ["--dq", "--dv"]),
                (["--grad-out", some, "--dbias", self.path("x.npy")], ["--dbias", "--bias"]),
                (["--grad-out", some, "--dsink", self.path("x.npy")], ["--dsink", "--sink"]),
                (["--grad-out", some, "--dq", self.path("o.npy")], ["two outputs"]),
                (["--grad-out", some, "--dq", self.path("dq.npy"), "--score-mod", some], ["--score-mod-grad"]),
                (["--backward-skeleton", "backward_cpu"], ["--grad-out"]),
                (["--kv-chunk", "0"], ["--kv-chunk '0'"])):
            self.refused_run(USAGE, *words, says=says)

    def test_wrong_arrays(self):
        self.tensors()

        def file(kind, *shape):
            return self.write("wrong", kind, shape, [0] * product(shape))
        self.refused_run(FILE, "--bias", file("<f4", 5, 8), says=["wrong.npy", "--bias", "(5, 8)", "(5, 9)"])
        self.refused_run(FILE, "--bias", file("<f4", 9), says=["--bias", "(9,)", "(4, 5, 9)"])
        self.refused_run(FILE, "--bias", file("<f4", 3, 1, 5, 9), says=["(3, 1, 5, 9)", "(2, 4, 5, 9)"])
        self.refused_run(FILE, "--bias", file("<i4", 5, 9), says=["--bias", "'<i4'", "'<f4'"])
        self.refused_run(FILE, "--mask", file("<f4", 5, 9), says=["--mask", "'<f4'", "bool"])
        self.refused_run(FILE, "--mask", file("|b1", 9, 5), says=["--mask", "(9, 5)"])
        self.refused_run(FILE, "--alibi", file("<f4", 3), says=["--alibi", "(3,)", "(4,)"])
        self.refused_run(FILE, "--alibi", file("<f2", 4), says=["--alibi", "'<f4'"])
        self.refused_run(FILE, "--sink", file("<f4", 2, 4), says=["--sink", "(2, 4)", "(4,)"])
        self.refused_run(FILE, "--key-lengths", file("<i4", 3), says=["--key-lengths", "(3,)", "(2,)"])
        self.refused_run(FILE, "--key-lengths", file("<f4", 2), says=["--key-lengths", "int32"])
        self.refused_run(FILE, "--key-lengths", self.write("wrong", "<i8", (2,), [1, 10]), says=["number 1 is 10", "0 to 9"])
        def blocks(pointers, numbers, shape=None):
            return ["--block-indptr", self.write("indptr", "<i4", shape or (len(pointers),), pointers), "--block-indices",
                    self.write("indices", "<i4", (len(numbers),), numbers), "--block-size", "16,16"]
        self.refused_run(FILE, *blocks([0, 1, 1], [0]), says=["--block-indptr", "(3,)", "(2,)"])
        self.refused_run(FILE, *blocks([0, 2], [0]), says=["--block-indptr", "number 1 is 2", "from 0 to 1"])
        self.refused_run(FILE, *blocks([1, 0], [0]), says=["--block-indptr", "number 1 is 0", "less than the 1"])
        self.refused_run(FILE, *blocks([0, 1], [1]), says=["--block-indices", "number 0 is 1", "from 0 to 0"])
        self.refused_run(FILE, "--block-mask", file("|b1", 2, 2), "--block-size", "16,16",
                         says=["--block-mask", "(2, 2)", "(1, 1)"])
        self.refused_run(FILE, "--score-mod", self.path("absent.cl"), says=["absent.cl"])
        self.refused_run(FILE, "--mask-mod", self.text("empty.cl", ""), says=["empty.cl", "--mask-mod", "empty"])
        self.refused_run(FILE, "--grad-out", file("<f4", 2, 4, 5, 8), "--dq", self.path("dq.npy"),
                         says=["dO has shape (2, 4, 5, 8)", "that of V, 6"])
        self.refused_run(FILE, "--bias", self.write("wrong", "<f4", (2, 1, 5, 1), [0.0] * 10), "--grad-out",
                         self.write("do", "<f4", (2, 4, 5, 6), [0.0] * 240), "--dbias", self.path("x.npy"),
                         says=["--dbias", "column for each key"])
        for name in "qkv":
            write_npy(self.path(name + ".npy"), "|b1", (5, 8), [True] * 40)
        self.refused_run(FILE, says=["q.npy", "'|b1'", "'<f4'"])

    def test_wrong_sequences(self):
        self.inputs("<f4", ((2, 8, 8), (2, 11, 8), (2, 11, 6)))
        good = self.write("good", "<i4", (3,), [0, 4, 8])
        for keys, says in (([0, 5, 10], ["from 0 to 10", "from 0 to 11"]), ([0, 12, 11], ["number 1 is 12"]),
                           ([1, 5, 11], ["from 1 to 11"]), ([0, 7, 3, 11], ["number 2 is 3", "7"]),
                           ([0, 3, 5, 11], ["(4,)", "(3,)"])):
            self.refused_run(FILE, "--cu-seqlens-q", good, "--cu-seqlens-kv",
                             self.write("wrong", "<i4", (len(keys),), keys), says=["--cu-seqlens-kv", *says])
        self.tensors()
        self.refused_run(FILE, "--cu-seqlens-q", good, "--cu-seqlens-kv", good, says=["[heads, total, d]"])


if __name__ == "__main__":
    run_tests()
