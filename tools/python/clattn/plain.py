# SPDX-License-Identifier: BSD-2-Clause
"""The arguments of a call that are not arrays: of the right type, or an error that names them."""
import difflib
import operator
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from . import errors
from .device import Device

_WINDOW = '(left, right), each a number of keys or -1 for no limit'
_PAIRS = {'window': _WINDOW, 'window_size': _WINDOW, 'block_size': '(rows, keys) of a block'}
_WHOLE = ('sink_keys', 'max_n_q', 'max_n_kv', 'dropout_seed', 'dropout_offset', 'k_scale_group', 'v_scale_group',
          'kv_chunk', 'max_device_bytes', 'splits', 'split_keys', 'b_r', 'b_c', 'work_group_size')
_NUMBERS = ('scale', 'softcap', 'dropout_p')
_FLAGS = ('dropout_fixed', 'return_lse', 'return_ml', 'unordered')
_TEXTS = ('layout', 'k_format', 'v_format', 'score_mod', 'score_mod_grad', 'mask_mod', 'out_dtype', 'packing',
          'skeleton', 'knobs')
_OTHERS: Dict[str, Tuple[Any, str]] = {
    'statistics': (Mapping, 'a dictionary of arrays'), 'expected': (Mapping, 'a dictionary of numbers'),
    'wait_for': ((list, tuple), 'a list of events'), 'first_event': (list, 'a list, which gets an event'),
    'device': (Device, 'a clattn.Device, such as clattn.Device(0, 0)')
}
# What None stands for nothing in.
_NEEDED = ('softcap', 'dropout_p', 'dropout_seed', 'dropout_offset', 'max_device_bytes', 'split_keys', 'layout',
           'wait_for', *_FLAGS)


def _wrong(name: str, value: Any, right: str) -> errors.ArgumentError:
    return errors.ArgumentError(f'{name} is {value!r}: it must be {right}')


def number(value: Any, name: str) -> float:
    if type(value) in (float, int):
        return float(value)
    if isinstance(value, (str, bytes)):
        raise _wrong(name, value, 'a number')
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _wrong(name, value, 'a number') from None


def whole(value: Any, name: str) -> int:
    if type(value) is int:
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise _wrong(name, value, 'an integer') from None


def pair(value: Any, name: str) -> Tuple[int, int]:
    if type(value) in (tuple, list) and len(value) == 2 and type(value[0]) is int and type(value[1]) is int:
        return value[0], value[1]
    try:
        first, second = (operator.index(x) for x in value)
    except (TypeError, ValueError):
        raise errors.ArgumentError(f'{name} is {value!r}: it is {_PAIRS[name]}') from None
    return first, second


def flag(value: Any, name: str) -> bool:
    if type(value).__name__ not in ('bool', 'bool_', 'int') or value not in (0, 1):
        raise _wrong(name, value, 'True or False')
    return bool(value)


def instance(value: Any, name: str) -> Any:
    """One of _OTHERS."""
    kind, right = _OTHERS[name]
    if not isinstance(value, kind):
        raise _wrong(name, value, right)
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value, 'a string')
    return value


_READERS = {
    **dict.fromkeys(_PAIRS, pair),
    **dict.fromkeys(_WHOLE, whole),
    **dict.fromkeys(_NUMBERS, number),
    **dict.fromkeys(_FLAGS, flag),
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_OTHERS, instance)
}


def check(options: Dict[str, Any]) -> None:
    """Puts each into its type, by the names of attention()."""
    for name, value in options.items():
        reader = _READERS.get(name)
        if reader is None or (value is None and name not in _NEEDED):
            continue
        options[name] = reader(value, name)


def check_queue(queue: Any, wait_for: Iterable[Any]) -> None:
    """pyopencl's objects, which are known by their addresses."""
    for name, x in (('queue', queue), *(('wait_for', event) for event in wait_for)):
        if not hasattr(x, 'int_ptr'):
            raise _wrong(name, x, 'a pyopencl.CommandQueue' if name == 'queue' else 'a list of pyopencl.Event')


def unknown(name: str, known: Iterable[str]) -> TypeError:
    """The exception for a keyword that a function does not have."""
    alike = next((x for x in known if x in name or name in x), None) if len(name) > 3 else None
    near: Optional[str] = next(iter(difflib.get_close_matches(name, list(known), 1)), alike)
    return TypeError(f'{name} is no argument of this function' + (f': is it {near}?' if near else ''))
