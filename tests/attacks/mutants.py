"""Ways to sabotage a learner: what an audit or a test must notice. Each breaks the code and leaves the ledger as it was."""

import itertools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from dpcl_core.methods.common import per_example_gradients
from dpcl_core.methods.features import linear_heads, side_by_side
from dpcl_core.methods.language.gradients import Gradients
from dpcl_core.privacy import noise


class Changed:
    """A source of noise whose every addition goes through `change(add, clean, std, step)`, with the step of a training."""

    def __init__(self, source: Any, change: Callable[[Callable[..., Any], Any, float, int], Any]) -> None:
        self._source, self._change = source, change

    def __getattr__(self, name: str) -> Any:
        drawn = getattr(self._source, name)
        if name in ("added", "added32", "laplace_added"):
            return lambda clean, std: self._change(drawn, clean, std, 0)
        if name == "additions32":
            step, add = itertools.count(), self._source.added32
            return lambda size, std, count: lambda clean: self._change(add, clean, std, next(step))
        return drawn


def in_learners(
    patch: pytest.MonkeyPatch, change: Callable[[Any, Any, str], Any], within: str = "dpcl_core.methods"
) -> None:
    """Every learner in this module or package gets its noise by way of `change(source, cell, purpose)`."""
    import_module(within)
    honest = noise.noise_of
    for name, module in list(sys.modules.items()):
        if name.startswith(within) and hasattr(module, "noise_of"):
            patch.setattr(module, "noise_of", lambda *args: change(honest(*args), *args[1:]))


def scaled_noise(patch: pytest.MonkeyPatch, within: str, factor: float, *, later: bool = False) -> None:
    """All noise of these learners times a factor, or that of `later` tasks than the first."""
    scaled = lambda add, clean, std, step: add(clean, std * factor)  # noqa: E731

    def change(source: Any, cell: Any, purpose: str) -> Any:
        return source if later and purpose.endswith("task 0") else Changed(source, scaled)

    in_learners(patch, change, within)


def noise_of_all_tasks(patch: pytest.MonkeyPatch, within: str, *, is_by_step: bool = True) -> None:
    """One draw of noise for all tasks of a model: one for each step of a training, or one for all."""
    drawn: dict[Any, Any] = {}

    def change(source: Any, cell: Any, purpose: str) -> Any:
        def once(add: Any, clean: Any, std: float, step: int) -> Any:
            key = cell, np.shape(clean), std, step * is_by_step
            if key not in drawn:
                drawn[key] = add(np.zeros_like(clean), std)
            return clean + drawn[key]

        return Changed(source, once)

    in_learners(patch, change, within)


def keep_rows(patch: pytest.MonkeyPatch) -> None:
    """Examples of last layers keep the rows that plain sums need, though all budgets are clipped."""
    prepared = linear_heads.Prepared.of

    def of(*given: Any, all_clipped: bool) -> Any:
        return prepared(*given)

    patch.setattr(linear_heads.Prepared, "of", of)


def unclipped_heads(patch: pytest.MonkeyPatch) -> None:
    """Last layers add up gradients of any length."""
    honest = linear_heads.clipped_sums
    keep_rows(patch)

    def clipped_sums(data: Any, batch: Any, weights: Any, clips: Any, *rest: Any) -> Any:
        _, plain = honest(data, batch, weights, clips[:0])
        return plain[: len(clips)], plain[len(clips) :]

    patch.setattr(linear_heads, "clipped_sums", clipped_sums)


def unclipped_networks(patch: pytest.MonkeyPatch, module: Any = per_example_gradients) -> None:
    """Whole networks add up gradients of any length."""
    patch.setattr(module, "clip_weights", lambda norms, clip_norm: norms.new_ones(norms.shape))


def longer_texts(patch: pytest.MonkeyPatch, times: float = 40.0) -> None:
    """Texts' gradients are clipped to a norm so many times as long."""
    honest = Gradients.__init__
    patch.setattr(Gradients, "__init__", lambda self, net, clip_norm: honest(self, net, times * clip_norm))


def longer_adapters(patch: pytest.MonkeyPatch) -> None:
    """Gradients of adapters of pictures are as long as they are."""
    honest = side_by_side.clip_weights
    patch.setattr(side_by_side, "clip_weights", lambda norms, clip_norms: honest(norms, 1e9))
