# SPDX-License-Identifier: BSD-2-Clause
"""What a forward pass says of each row beside O: LSE, m and l, in new arrays or in those that are given, and what a
backward pass is told of them."""
from typing import Any, Dict, List, Sequence

from . import arrays, errors, views


def new_statistics(found: Any, like: Any, queue: Any, names: Sequence[str]) -> List[Any]:
    zero = found.options['query_lengths'] is not None
    made = [arrays.new(like, found.rows_shape(), 'fp32', queue, zero) for _ in names]
    found.call.tensors.update({name: views.view(x, name, True) for name, x in zip(names, made)})
    found.call.outputs += names
    return made


def take_statistics(found: Any, given: Dict[str, Any]) -> None:
    for name, x in given.items():
        if name not in ('lse', 'm', 'l') or name in found.call.tensors:
            raise errors.ArgumentError(f'statistics has {name!r}: its names are "lse", "m" and "l", each once')
        view = views.view(x, name, True)
        if view.dtype != 'fp32' or view.shape != found.rows_shape() or view.strides != views.normal(
                view.shape, views.dense(view.shape)):
            raise errors.ArgumentError(f'{name} has shape {view.shape} of {view.dtype}: it must be a dense array of '
                                       f'float32 with {found.rows_shape()}')
        found.call.tensors[name] = view
        found.call.outputs.append(name)


def check(found: Any, m: Any, l: Any, lse: Any) -> None:
    """O, dO and what is known of each row's softmax."""
    call, want = found.call, (*found.q.shape[:-1], found.v.shape[-1])
    for name in ('o', 'd_o'):
        view = call.tensors[name]
        if view.shape != want:
            raise errors.ArgumentError(
                f'{name} has shape {view.source.shape}: it must have {found.output_shape(want[-1])}')
    if call.tensors['o'].dtype != found.q.dtype:
        call.problem.o_type = views.OPERAND_TYPES[call.tensors['o'].dtype]
    if call.tensors['d_o'].dtype != found.q.dtype:
        raise errors.DtypeError(f'd_o is {call.tensors["d_o"].dtype}: it must be {found.q.dtype}, as q')
    if (m is None) != (l is None) or (m is None and lse is None):
        raise errors.ArgumentError('m and l must be given together, or else lse: attention() answers with them')
    rows = {'m': m, 'l': l} if m is not None else {'lse': lse}
    for name, x in rows.items():
        view = views.scalars(x, name, 'fp32')
        if view.shape != found.rows_shape():
            raise errors.ArgumentError(f'{name} has shape {view.shape}: it must have {found.rows_shape()}')
        call.tensors[name] = view
