#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Everything that a forward or a backward call of the library takes can be said to attention() or
attention_backward(): each member of its structs is a keyword, or follows from the arrays.

usage: test_keywords.py      (PYTHONPATH: the package)
"""
import inspect
import sys

sys.dont_write_bytecode = True
import clattn
from clattn import _abi

# What the arrays themselves say, and what only the package has in hand.
ARRAYS = {
    'pass', 'dtype', 'd', 'd_v', 'q_type', 'k_type', 'v_type', 'bias_type', 'page_keys', 'zero_points', 'batch',
    'heads', 'kv_heads', 'n_q', 'n_kv', 'q', 'k', 'v', 'o', 'd_o', 'total_q', 'total_kv', 'pool_pages', 'page_count',
    'tree_keys', 'block_count', 'data_count'
}
# dropout_row is for calls of some rows, such as a ring's.
OWN = {
    'reserved', 'shape', 'score', 'more', 'progress_user', 'workspace', 'workspace_bytes', 'kv_scales', 'features',
    'dropout_row'
}
# Members whose keyword has another name. Chunks of a backward pass are kv_chunk's.
NAMES = {
    'block_q': 'block_size', 'block_kv': 'block_size', 'o_type': 'out', 'window_left': 'window',
    'window_right': 'window', 'block_offsets': 'block_mask', 'block_columns': 'block_mask', 'd_q': 'need',
    'd_k': 'need', 'd_v': 'need', 'd_bias': 'need', 'd_sinks': 'need', 'first_key': 'kv_chunk',
    'key_count': 'kv_chunk', 'expected_n_q': 'expected', 'expected_n_kv': 'expected', 'expected_heads': 'expected',
    'expected_kv_heads': 'expected', 'expected_density': 'expected'
}
FORWARD = ('clattn_problem', 'clattn_score_args', 'clattn_score_more', 'clattn_host_score_args', 'clattn_kv_scales',
           'clattn_shape', 'clattn_forward_args', 'clattn_host_forward_args')
BACKWARD = ('clattn_backward_args', 'clattn_host_backward_args')
# Of the problem and of scores what backward passes alone have.
BACKWARD_ONLY = {'score_mod_grad', 'unordered', 'd_lse'}


def missing(structs, keywords, left_out=()):
    """Members that no keyword is for."""
    for struct in structs:
        for name, *_ in getattr(_abi, struct)._fields_:
            plain = name.removesuffix('_layout').removesuffix('_offset').removesuffix('_memory')
            if name in keywords or plain in ARRAYS | OWN or name in ARRAYS | OWN or plain in left_out:
                continue
            if NAMES.get(name, plain) not in keywords and NAMES.get(plain) not in keywords:
                yield f'{struct}.{name}'


def keywords_of(function):
    """Its names, and those that `more` takes."""
    return set(inspect.signature(function).parameters) | set(_abi.SCORE_MORE)


def main():
    forward, backward = keywords_of(clattn.attention), keywords_of(clattn.attention_backward)
    said = {'lse': 'return_lse', 'm': 'return_ml', 'l': 'return_ml'}
    forward |= {name for name, keyword in said.items() if keyword in forward}
    found = [*missing(FORWARD, forward, BACKWARD_ONLY), *missing(BACKWARD, backward)]
    found += [f'attention_backward: {name}' for name in BACKWARD_ONLY if name not in backward]
    found += missing(['clattn_context_params'], keywords_of(clattn.Device.__init__) | {'context', 'device'})
    for name in found:
        print(f'{name}: no keyword is for it')
    if not list(missing(FORWARD, forward - {'softcap'}, BACKWARD_ONLY)):
        sys.exit('a keyword that is not there is not missed')
    print(f'{len(forward)} keywords of attention(), {len(backward)} of attention_backward(): {len(found)} missing')
    return 1 if found else 0


sys.exit(main())
