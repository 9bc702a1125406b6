"""Accuracy tables made up by rule, so that every number in a figure can be worked out by hand."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from dpcl_core.figures.picture import Picture


def by_rule(epsilon: float, seed: int, after_task: int, on_task: int) -> float:
    """Accuracy that rises with epsilon, falls by 4 points a task, and differs by 2 points between seeds."""
    best = 0.9 if math.isinf(epsilon) else 0.9 * epsilon / (epsilon + 1)
    return best - 0.04 * (after_task - on_task) + 0.02 * (seed - 1)


def accuracy(
    *, n_tasks: int = 4, epsilons: Sequence[float] = (0.5, 8.0, math.inf), seeds: Sequence[int] = (0, 1, 2),
    rule: Callable[[float, int, int, int], float] = by_rule,
) -> pd.DataFrame:  # fmt: skip
    """A table as `runs.frames.accuracy` gives it."""
    places = [(e, seed, k, i) for e in epsilons for seed in seeds for k in range(n_tasks) for i in range(k + 1)]
    rows = [(*place, rule(*place)) for place in places]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "after_task", "on_task", "accuracy"])


def picture_of(figure: go.Figure, finding: str) -> Picture:
    """A figure of Plotly's as a picture."""
    return Picture([trace.to_plotly_json() for trace in figure.data], figure.layout.to_plotly_json(), finding)


Colour = str | tuple[float, ...]  # as "#0072b2", or red, green and blue in [0, 1]


def luminance(colour: Colour) -> float:
    """Relative luminance as WCAG defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] if isinstance(colour, str) else colour[:3]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: Colour, second: Colour) -> float:
    """Contrast ratio as WCAG defines it."""
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# How linear RGB looks to most readers, and without long, medium or short cones (Machado et al. 2009, severity 1).
SIGHTS: dict[str, ArrayLike] = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.95047, 1.0, 1.08883])


def apart(first: str, second: str, sight: ArrayLike) -> float:
    """How far two colours are apart in CIELAB (1976), as this sight has them; 2.3 is just noticeable side by side."""
    return float(np.linalg.norm(_lab(first, sight) - _lab(second, sight)))


def _lab(colour: str, sight: ArrayLike) -> NDArray[np.float64]:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    # No colour here is so dark that it needs the line.
    x, y, z = np.cbrt(_TO_XYZ @ np.clip(np.asarray(sight) @ linear, 0, 1) / _WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
