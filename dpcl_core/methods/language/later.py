"""This family's modules that take long to load, imported when something of them is first used."""

from typing import TYPE_CHECKING

from dpcl_core.backbones.later import causal, kept_states, torch
from dpcl_core.later import Late

__all__ = ["causal", "evaluation", "kept_states", "per_example", "per_text", "torch", "training"]

if TYPE_CHECKING:
    from dpcl_core.methods.common import per_example_gradients as per_example
    from dpcl_core.methods.language import evaluation, training
    from dpcl_core.methods.language import gradients as per_text
else:
    _family = (Late(f"dpcl_core.methods.language.{name}") for name in ("evaluation", "training", "gradients"))
    per_example, (evaluation, training, per_text) = Late("dpcl_core.methods.common.per_example_gradients"), _family
