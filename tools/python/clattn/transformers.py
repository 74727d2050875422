# SPDX-License-Identifier: BSD-2-Clause
"""Attention of models of Hugging Face by clattn, on the CPU:

    import clattn.transformers
    clattn.transformers.register()
    model = AutoModel.from_pretrained(NAME, attn_implementation="clattn")      # or
                                                                               model.set_attn_implementation("clattn")
"""
from typing import Any, Optional, Tuple

from transformers import AttentionInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

from . import errors
from .torch import attention


def forward(module: Any,
            query: Any,
            key: Any,
            value: Any,
            attention_mask: Any,
            dropout: float = 0.0,
            scaling: Optional[float] = None,
            is_causal: Optional[bool] = None,
            softcap: Optional[float] = None,
            s_aux: Any = None,
            **others: Any) -> Tuple[Any, None]:
    """What a model calls. A window is in the mask, as for its "sdpa"; groups of heads share keys as they are."""
    if others.get('head_mask') is not None:
        raise errors.ArgumentError('head_mask is given: clattn has none; take attn_implementation="eager"')
    if is_causal is None:
        is_causal = getattr(module, 'is_causal', True)
    causal = 'top-left' if is_causal and attention_mask is None and query.shape[2] > 1 else False
    kind = 'mask' if attention_mask is not None and not attention_mask.is_floating_point() else 'bias'
    o = attention(query,
                  key,
                  value,
                  causal=causal,
                  scale=scaling,
                  softcap=softcap or 0.0,
                  sinks=s_aux,
                  dropout_p=dropout,
                  **{kind: attention_mask})
    return o.transpose(1, 2), None


def register(name: str = 'clattn') -> None:
    """Makes `name` a value of attn_implementation."""
    AttentionInterface.register(name, forward)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, sdpa_mask)
