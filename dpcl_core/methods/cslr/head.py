"""The trained part: a linear layer or a small network on embeddings, many copies side by side in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Loss = Literal["softmax", "sigmoid"]
Params = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Head:
    """Linear(d, C), or Linear(d, hidden)-ReLU-Linear(hidden, C) where `n_hidden` > 0; parameters are flat vectors [P].

    `loss`: "softmax", cross-entropy with soft targets; "sigmoid", binary cross-entropy of each class (several at once).
    """

    n_inputs: int
    n_classes: int
    n_hidden: int = 128
    loss: Loss = "softmax"

    @property
    def n_parameters(self) -> int:
        """P."""
        raise NotImplementedError

    def initial(self, generator: np.random.Generator) -> Params:
        """Fresh parameters [P]: uniform within 1/sqrt(fan-in), as torch's Linear."""
        raise NotImplementedError

    def logits(self, params: Params, z: NDArray[np.floating]) -> NDArray[np.float32]:
        """[..., n, C] of parameters [..., P] and embeddings [n, d] or [..., n, d]."""
        raise NotImplementedError

    def gradients(
        self, params: Params, z: NDArray[np.float32], targets: NDArray[np.float32], weights: NDArray[np.float32]
    ) -> Params:
        """Gradients [J, P] of J copies' weighted summed losses: params [J, P], z [J, b, d], targets [J, b, C], weights [J, b]."""
        raise NotImplementedError


def trained(
    head: Head,
    start: Params,
    z: NDArray[np.float32],
    targets: NDArray[np.float32],
    n_steps: int,
    batch_size: int,
    learning_rate: float,
    generator: np.random.Generator,
) -> Params:
    """J copies [J, P] after `n_steps` of Adam from `start` [J, P], copy j on its own rows z [J, n, d], targets [J, n, C].

    One order of rows serves all copies. Raises Diverged where a weight leaves all bounds.
    """
    raise NotImplementedError
