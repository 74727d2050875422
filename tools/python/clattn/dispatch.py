# SPDX-License-Identifier: BSD-2-Clause
"""Whether PyTorch's dispatcher has anything to do for an operator.

For one in Python it takes some 0.2 ms a call, forward and backward. It is needed for tensors that are not what they
seem (fake, batched, negated ones, subclasses), while something looks on (torch.compile, tracing, modes), and where
PyTorch has no names by which to ask."""
from typing import Any, FrozenSet, Optional, Sequence

import torch
from torch import Tensor

_NAMES = ('_dispatch_keys', '_dispatch_tls_local_include_set', '_dispatch_tls_is_dispatch_key_excluded', 'DispatchKey')


def _ordinary(ask: Any) -> FrozenSet[int]:
    """What ask() says outside and inside of inference mode."""
    outside = ask().raw_repr()
    with torch.inference_mode():
        return frozenset((outside, ask().raw_repr()))


if all(hasattr(torch._C, name) for name in _NAMES):
    _KEYS, _MODES = _ordinary(lambda: torch._C._dispatch_keys(torch.empty(0))), _ordinary(
        torch._C._dispatch_tls_local_include_set)
else:
    _KEYS = _MODES = frozenset()


def is_plain(tensors: Sequence[Optional[Tensor]]) -> bool:
    """Whether these are ordinary tensors of the CPU, used outside of all modes and transforms. None is left out."""
    if not _KEYS or torch.compiler.is_compiling():
        return False
    named = [x for x in tensors if x is not None]
    c = torch._C
    return (not torch.overrides.has_torch_function(named) and c._dispatch_tls_local_include_set().raw_repr() in _MODES
            and all(c._dispatch_keys(x).raw_repr() in _KEYS for x in named))


def records() -> bool:
    """Whether gradients are recorded here: not within operators, whose caller has recorded them."""
    return not torch._C._dispatch_tls_is_dispatch_key_excluded(torch._C.DispatchKey.AutogradCPU)
