# SPDX-License-Identifier: BSD-2-Clause
"""Exact attention (FlashAttention), with its gradients, for every OpenCL device.

    attention(), attention_backward()     all that the library has, on arrays of NumPy, pyopencl and PyTorch
    scaled_dot_product_attention()        PyTorch's function
    flash_attn_func(), flash_attn_varlen_func(), flash_attn_with_kvcache()     those of flash-attn
    Device, devices(), default_device(), set_default_device()     where it is computed
    clattn.torch                          an operator of PyTorch: gradients, torch.compile
    clattn.transformers                   attn_implementation="clattn" for models of Hugging Face

Errors are ArgumentError (a ValueError), DtypeError (a TypeError) and Error (a RuntimeError)."""
from ._library import version
from .attention import Gradients, attention, attention_backward
from .device import Device, DeviceInfo, default_device, devices, set_default_device
from .errors import ArgumentError, DtypeError, Error
from .flash import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
from .sdpa import scaled_dot_product_attention

__version__ = version()
__all__ = [
    'ArgumentError', 'Device', 'DeviceInfo', 'DtypeError', 'Error', 'Gradients', 'attention', 'attention_backward',
    'default_device', 'devices', 'flash_attn_func', 'flash_attn_varlen_func', 'flash_attn_with_kvcache',
    'scaled_dot_product_attention', 'set_default_device', 'version'
]
