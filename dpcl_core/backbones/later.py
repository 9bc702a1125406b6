"""Modules that load torch, imported when something of them is first used: a card needs none of it."""

from typing import TYPE_CHECKING

from dpcl_core.later import Late, torch

__all__ = ["adaptable", "causal", "gpu", "kept_states", "networks", "torch"]

if TYPE_CHECKING:
    from dpcl_core.backbones import adaptable, causal, gpu, kept_states, networks
else:
    _here = (Late(f"dpcl_core.backbones.{name}") for name in ("adaptable", "causal", "gpu", "kept_states", "networks"))
    adaptable, causal, gpu, kept_states, networks = _here
