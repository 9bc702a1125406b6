"""A label as a choice: its likelihood among the names of a task's labels, with the prior of each name taken off.

The names of a task's labels form a tree of tokens. Where several tokens can follow, at a fork, the model's probabilities
are restricted to these tokens, and divided by what they are on public texts that the frozen model reads with the same
question (normalised again): contextual calibration (Zhao et al. 2021), with public texts in place of an empty one. The
likelihood of a label is the product over the forks on the way to it; tokens that are the only ones to follow count
nothing. The prior is a constant made of public texts and a public network: it reads no text of the task, and no test
text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.methods.language.public_text import Answer


class Forks:
    """The forks of all tasks so far. Fork 0 stands for a token without alternative."""

    KEPT = ("_following", "_prior", "_answers")

    def __init__(self) -> None:
        self._following: list[list[int]] = [[]]
        self._prior: list[NDArray[np.float64]] = [np.zeros(0)]
        self._answers: dict[str, Mapping[int, Answer]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._answers

    def add(self, name: str, names: Mapping[int, Sequence[int]]) -> None:
        """Adds a task. Args: names: tokens of each label's name, none of which is the beginning of another."""
        following: dict[tuple[int, ...], set[int]] = {}
        for tokens in names.values():
            for place, token in enumerate(tokens):
                following.setdefault(tuple(tokens[:place]), set()).add(token)
        numbers: dict[tuple[int, ...], int] = {}
        for path, tokens_after in following.items():
            if len(tokens_after) > 1:
                numbers[path] = len(self._following)
                self._following.append(sorted(tokens_after))
                self._prior.append(np.zeros(len(tokens_after)))
        self._answers[name] = {
            label: (list(tokens), [numbers.get(tuple(tokens[:place]), 0) for place in range(len(tokens))])
            for label, tokens in names.items()
        }

    def set_prior(self, fork: int, log_probs: NDArray[np.float64]) -> None:
        """What is taken off the log-probabilities [tokens] at this fork."""
        self._prior[fork] = log_probs

    def answers(self, name: str) -> Mapping[int, Answer]:
        """Tokens and forks of each label's name in this task, up to the last fork: what follows it is certain."""
        return {label: _to_last_fork(answer) for label, answer in self._answers[name].items()}

    def covering(self, name: str) -> Mapping[int, Answer]:
        """A few labels' answers that pass through all forks of the task."""
        covered: set[int] = set()
        chosen: dict[int, Answer] = {}
        for label, answer in sorted(self.answers(name).items(), key=lambda one: -sum(map(bool, one[1][1]))):
            if passed := set(answer[1]) - covered - {0}:
                chosen[label], covered = answer, covered | passed
        return chosen

    def tokens(self, device: torch.device) -> Tensor:
        """All tokens that can follow at some fork, int64 [v], in order; token 0 where there is no fork."""
        return torch.tensor(sorted({token for following in self._following for token in following}) or [0], device=device)

    def tables(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Tokens int64 [forks, m] that can follow at each fork, -1 where there are fewer; their prior [forks, m]."""
        width = max(1, *map(len, self._following))
        tokens, prior = np.full((len(self._following), width), -1, np.int64), np.zeros((len(self._following), width))
        for fork, following in enumerate(self._following):
            tokens[fork, : len(following)], prior[fork, : len(following)] = following, self._prior[fork]
        return torch.from_numpy(tokens).to(device), torch.from_numpy(prior).to(device)

    def log_probs(self, logits: Tensor, forks: Tensor) -> Tensor:
        """Log-probabilities [..., m] of the tokens that can follow at these forks [...]; logits [..., v] of `tokens`.

        -inf where there are fewer than m; meaningless at fork 0.
        """
        tokens, prior = self.tables(logits.device)
        following = tokens[forks]
        places = torch.searchsorted(self.tokens(logits.device), following).clamp(max=logits.shape[-1] - 1)
        chosen = logits.gather(-1, places) - prior[forks].to(logits.dtype)
        is_none = following < 0
        is_none[..., 0] &= forks != 0  # something to normalise at fork 0
        return chosen.masked_fill(is_none, -torch.inf).log_softmax(dim=-1)

    def of_tokens(self, logits: Tensor, forks: Tensor, ids: Tensor) -> Tensor:
        """Log-probabilities [...] of the tokens int64 [...] at these forks; 0 at fork 0. Logits [..., v] of `tokens`."""
        tokens, _ = self.tables(logits.device)
        places = (tokens[forks] == ids[..., None]).long().argmax(dim=-1)
        found: Tensor = self.log_probs(logits, forks).gather(-1, places[..., None])[..., 0]
        return found.where(forks != 0, 0)

    def scores(self, name: str, at_forks: Mapping[int, NDArray[np.floating]]) -> dict[int, NDArray[np.float64]]:
        """Log-likelihood [n] of each label. Args: at_forks: log-probabilities [n, m] at each fork of the task."""
        scores: dict[int, NDArray[np.float64]] = {}
        for label, (tokens, forks) in self.answers(name).items():
            steps = [
                at_forks[fork][:, self._following[fork].index(token)]
                for token, fork in zip(tokens, forks, strict=True)
                if fork
            ]
            scores[label] = np.sum(np.asarray(steps, np.float64), axis=0)
        return scores


def _to_last_fork(answer: Answer) -> Answer:
    tokens, forks = answer
    end = max((1 + place for place, fork in enumerate(forks) if fork), default=0)
    return tokens[:end], forks[:end]
