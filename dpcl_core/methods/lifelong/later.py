"""This family's modules that take long to load, imported when something of them is first used."""

from typing import TYPE_CHECKING

from dpcl_core.backbones.later import gpu, torch
from dpcl_core.later import Late

__all__ = ["gpu", "nets", "per_example", "torch"]

if TYPE_CHECKING:
    from dpcl_core.methods.common import per_example_gradients as per_example
    from dpcl_core.methods.lifelong import nets
else:
    nets, per_example = map(Late, ("dpcl_core.methods.lifelong.nets", "dpcl_core.methods.common.per_example_gradients"))
