"""Ways to sabotage a learner: what an audit or a test must notice. Each breaks the code and leaves the ledger as it was."""

from importlib import import_module
from itertools import count
from typing import Any

import numpy as np
import pytest

from dpcl_core.methods.common import per_example_gradients
from dpcl_core.methods.features import linear_heads, side_by_side
from dpcl_core.methods.language.gradients import Gradients

_DRAWS = ("normal", "laplace")
_ADDITIONS = ("added", "added32", "laplace_added", "additions32")  # the noise's scale is the second argument


class _Scaled:
    """Noise as small as a factor makes it."""

    def __init__(self, noise: Any, factor: float) -> None:
        self._noise, self._factor = noise, factor

    def __getattr__(self, name: str) -> Any:
        drawn = getattr(self._noise, name)
        if name in _DRAWS:
            return lambda *args, **named: (drawn(*args, **named) * self._factor).astype(drawn(*args, **named).dtype)
        if name in _ADDITIONS:
            return lambda first, std, *args: drawn(first, std * self._factor, *args)
        return drawn


class _Once:
    """Noise that is drawn once, and told again to whoever asks for as many numbers."""

    def __init__(self, noise: Any, kept: dict[Any, Any]) -> None:
        self._noise, self._kept = noise, kept

    def __getattr__(self, name: str) -> Any:
        drawn = getattr(self._noise, name)
        if name in _DRAWS:
            return lambda shape: self._kept.setdefault((name, shape), drawn(shape)).copy()
        if name == "additions32":
            return lambda size, std, count: self._repeated(drawn(size, std, count), (size, std, count))
        if name in _ADDITIONS:
            return lambda clean, std: self._repeated(lambda zeros: drawn(zeros, std), (name, clean.shape, std))(clean)
        return drawn

    def _repeated(self, add: Any, key: Any) -> Any:
        told, steps = self._kept.setdefault(key, []), count()

        def added(clean: Any) -> Any:
            if (step := next(steps)) == len(told):
                told.append(add(np.zeros_like(clean)))
            return clean + told[step]

        return added


def scaled_noise(patch: pytest.MonkeyPatch, module: str, factor: float, *, later: bool = False) -> None:
    """All noise of a learner's module times a factor, or that of `later` tasks than the first."""
    loaded = import_module(module)
    honest = loaded.noise_of

    def noise_of(source: Any, cell: Any, purpose: str) -> Any:
        drawn = honest(source, cell, purpose)
        return drawn if later and purpose.endswith("task 0") else _Scaled(drawn, factor)

    patch.setattr(loaded, "noise_of", noise_of)


def noise_of_all_tasks(patch: pytest.MonkeyPatch, module: str) -> None:
    """One draw of noise for all tasks of a model."""
    loaded = import_module(module)
    honest, kept = loaded.noise_of, {}

    def noise_of(source: Any, cell: Any, purpose: str) -> Any:
        return _Once(honest(source, cell, purpose), kept.setdefault(cell, {}))

    patch.setattr(loaded, "noise_of", noise_of)


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
