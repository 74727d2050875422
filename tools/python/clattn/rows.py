# SPDX-License-Identifier: BSD-2-Clause
"""What a forward pass says of each row beside O: LSE, m and l, in new arrays or in those that are given."""
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
