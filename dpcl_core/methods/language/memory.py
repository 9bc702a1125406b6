"""PeCL's memory: how strongly what was learned before is held, from the adapters' products (Zhan et al., Eqs. 7 to 11).

Readings where the paper leaves a choice: adapters add up; a task is held by what its predecessors left (Omega_k exists only
after training), so that nothing is held while the first is learned; ||x|| is the mean norm of what the adapted layer reads
of a token.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dpcl_core.backbones.language.causal import Adapted


def strength(mean_score: float, lowest: float, highest: float) -> float:
    """lambda_dyn = highest (1 - mean score) + lowest mean score (Eq. 11)."""
    return highest * (1 - mean_score) + lowest * mean_score


class Memory:
    """Omega-bar of every adapter, and the products B A as they were at the end of the last task."""

    def __init__(self, net: Adapted, lowest: float, highest: float) -> None:
        raise NotImplementedError

    def remember(self, input_norms: Sequence[float], mean_score: float) -> None:
        """To be called after a task: takes the snapshot, and Omega_k = ||B A||_F times the input norm into the mean.

        Args: input_norms: of each adapter, mean L2 norm of its inputs; mean_score: in [0, 1].
        """
        raise NotImplementedError

    def penalty(self) -> Tensor:
        """L_reg (Eq. 10) of the parameters as they are: 0 while the first task is learned, and where nothing has changed."""
        raise NotImplementedError
