"""Texts as language methods use them: prompts, public substitutes, and the exposure of planted secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import plain_language
from dpcl_core.data import synthetic
from dpcl_core.data.texts import PADDING, STOP, TOKEN, Texts
from dpcl_core.events import Leaks
from dpcl_core.methods.language import sensitivity
from dpcl_core.scenarios.stream import Examples
from dpcl_core.spec import Cell, PrivacySpec

if TYPE_CHECKING:
    from dpcl_core.backbones.plain_language import Tokenizer

# Exposure of planted secrets, and the lower bound on epsilon that follows, from the likelihoods of all possible values.
#
# Exposure is log2 of the number of values minus log2 of the secret's rank among them by likelihood (Carlini, Liu,
# Erlingsson, Kos and Song 2019, "The Secret Sharer"). A secret that was never seen has 1.44 bits on average, the most likely
# one of N has log2 N. Counted from the least likely end, exposure reveals a secret that was unlearned too hard and so stands
# out again.


CONFIDENCE = 0.95
_SHARES = (1e-4, 1e-3, 1e-2)  # shares of all values that the attacker may name: fixed in advance, not chosen by the result
# Codes are drawn without replacement, and never a string that a text holds elsewhere: the proof counts only this share of
# all values as possible.
_FREE = 0.8


@dataclass(frozen=True, slots=True)
class Ranked:
    """One secret's rank: `rank` counts from the most likely (1) among `n_ranked` values, after its ties.

    `n_values`: number of possible values; more than `n_ranked` where the others are a sample of references. `place`: rank
    among all of them, at the middle of its ties. `repetitions`: number of texts it was planted in. `extracted`: whether
    greedy decoding prints it.
    """

    rank: int
    n_ranked: int
    place: float
    n_values: int
    repetitions: int
    extracted: bool

    @property
    def exposure(self) -> float:
        """Exposure in bits: how much easier the model makes the secret to guess."""
        return float(np.log2(self.n_values) - np.log2(self.place))

    @property
    def below(self) -> float:
        """Exposure in bits, counted from the least likely end."""
        return float(np.log2(self.n_values) - np.log2(self.n_values + 1 - self.place))


def ranked(likelihood: float, others: NDArray[np.floating], n_values: int, repetitions: int, extracted: bool) -> Ranked:
    """A secret's rank by log-likelihood; `others` [m] are all other values (m = n_values - 1) or a sample of them.

    With a sample the place is interpolated linearly between the references' expected places i n_values / (m + 1); beyond
    the outermost reference it is halfway to the end, so exposure is at most log2(2 (m + 1)). NaN counts as least likely.
    """
    values = np.nan_to_num(np.asarray(others, np.float64), nan=-np.inf)
    secret = -np.inf if np.isnan(likelihood) else likelihood
    n_better, n_equal = int((values > secret).sum()), int((values == secret).sum())
    place = 1 + n_better + n_equal / 2 if len(values) + 1 == n_values else _interpolated(secret, values, n_values)
    return Ranked(1 + n_better + n_equal, len(values) + 1, place, n_values, repetitions, extracted)


def leaks(rankings: Sequence[Ranked], *, cell: Cell, task: int, privacy: PrivacySpec) -> Leaks:
    """Mean exposure for each number of repetitions, and the lower bound on the epsilon of one text.

    The proof's controls are all values that a secret could have had but did not; codes that were never planted are only
    shown for comparison. With few codes, or codes in many texts each, the bound is weak: fifteen codes, in one text each and
    all of them the most likely of 10,000, prove 10.1 under "replace" and half of that under "add-remove"; in 16 texts each,
    at most a sixteenth of that. A bound of 0 does not mean that nothing leaks.
    """
    levels = tuple(sorted({one.repetitions for one in rankings}))
    by_level = [[one for one in rankings if one.repetitions == level] for level in levels]
    return Leaks(
        cell,
        task,
        levels,
        exposure=tuple(float(np.mean([one.exposure for one in group])) for group in by_level),
        below=tuple(float(np.mean([one.below for one in group])) for group in by_level),
        first=tuple(float(np.mean([one.rank == 1 for one in group])) for group in by_level),
        extracted=tuple(float(np.mean([one.extracted for one in group])) for group in by_level),
        codes=tuple(len(group) for group in by_level),
        epsilon_at_least=epsilon_at_least(rankings, privacy),
        confidence=CONFIDENCE,
    )


def epsilon_at_least(rankings: Sequence[Ranked], privacy: PrivacySpec) -> float:
    """Lower bound at `CONFIDENCE` on the epsilon of one text: `privacy.audit_bounds` for several list lengths."""
    from dpcl_core.privacy.audit_bounds import GuessCounts, bound_of_guesses

    games: list[GuessCounts] = []
    for level in sorted({one.repetitions for one in rankings} - {0}):
        group = [one for one in rankings if one.repetitions == level]
        size = min(one.n_ranked for one in group)
        if size < 10:  # too few values to prove anything
            continue
        for allowed in sorted({max(1, round(share * size)) for share in _SHARES}):
            right = sum(one.rank <= allowed for one in group)
            games.append(GuessCounts(len(group), right, allowed, int(_FREE * size), level))
    return bound_of_guesses(tuple(games), privacy.delta, privacy.adjacency, CONFIDENCE)


def _interpolated(likelihood: float, values: NDArray[np.float64], n_values: int) -> float:
    if len(values) == 0:
        raise ValueError("others is empty: ranking a secret needs references")
    m, step = len(values), n_values / (len(values) + 1)
    descending = -np.sort(-values)
    if likelihood > descending[0]:
        return max(1.0, step / 2)
    if likelihood < descending[-1]:
        return min(float(n_values), n_values - step / 2)
    # Equal references share their mean place, so that the interpolated function has no jumps.
    distinct, first = np.unique(-descending, return_index=True)
    last = np.append(first[1:], m)
    return float(np.interp(-likelihood, distinct, step * (1 + (first + last - 1) / 2)))


# Prompts of a language model: encoded text, a template, and the label's name as the answer.
#
# The text comes before the template, so that the likelihood of its tokens does not depend on the task:
#
#     text ⏎ task: label ∎


PAD, TEMPLATE, TEXT, ANSWER = 0, 1, 2, 3  # roles of tokens
Answer = tuple[list[int], list[int]]  # tokens of a label's name, and the fork of each
FIRST = 1  # column of a text's first token: the start-of-text token precedes every text


@dataclass(frozen=True, slots=True, eq=False)
class Prompted:
    """Texts with template and answer, padded at the end; token k of a text is in column `FIRST` + k.

    `ids` int64 [n, S], 0 where padded; `role` int8 [n, S]; `stop` bool [n, S]: in a stop word, which template and answer are
    not; `fork` int64 [n, S]: of an answer's token, the place in `gradients.Forks` where it is one of several that could
    follow; 0 where it is the only one, and outside answers.
    """

    ids: NDArray[np.int64]
    role: NDArray[np.int8]
    stop: NDArray[np.bool_]
    fork: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def planes(self) -> tuple[NDArray[Any], ...]:
        """All four arrays."""
        return self.ids, self.role, self.stop, self.fork

    def resized(self, width: int) -> Prompted:
        """The same texts, padded with zeros or cut off to `width` columns."""
        missing = max(0, width - self.ids.shape[1])
        return Prompted(*(np.pad(plane[:, :width], ((0, 0), (0, missing))) for plane in self.planes))


def template(name: str) -> str:
    """The template between a text and its label in the task of this name; the label follows after a blank."""
    return f"\n{name}:"


def answer_ids(tokenizer: Tokenizer, label: str) -> list[int]:
    """The tokens of a label's name as an answer, with the end-of-text token, so that no answer is a prefix of another."""
    return [*tokenizer.encode(f" {label}")[0], tokenizer.eos]


def prompted(
    tokenizer: Tokenizer, inputs: NDArray[np.int32], labels: NDArray[np.int64] | None, classes: Sequence[str], name: str,
    answers_of: Mapping[int, Answer] | None = None
) -> Prompted:
    """Prompts of one task's texts, with their answers; `labels` None: without answers, for prediction.

    Args: inputs int32 [n, length, planes] from `backbones.plain_language`; labels int64 [n], indices into `classes`;
    answers_of: tokens and forks of each label's answer; None: the whole names, without forks.
    """
    n, length = len(inputs), inputs.shape[1]
    middle = tokenizer.encode(template(name))[0]
    answers: list[Answer] = []
    if labels is not None:
        by_label = {label: _answer(tokenizer, classes, label, answers_of) for label in np.unique(labels).tolist()}
        answers = [by_label[label] for label in labels.tolist()]
    width = FIRST + length + len(middle) + max((len(tokens) for tokens, _ in answers), default=0)
    ids, role = np.zeros((n, width), np.int64), np.zeros((n, width), np.int8)
    stop, fork = np.zeros((n, width), np.bool_), np.zeros((n, width), np.int64)
    ids[:, 0], role[:, 0] = tokenizer.bos, TEMPLATE
    is_text = inputs[:, :, TOKEN] != PADDING
    inner = slice(FIRST, FIRST + length)
    ids[:, inner], role[:, inner] = np.where(is_text, inputs[:, :, TOKEN], 0), TEXT * is_text
    stop[:, inner] = (inputs[:, :, STOP] != 0) & is_text
    for row, end in enumerate((FIRST + is_text.sum(axis=1)).tolist()):
        after = end + len(middle)
        ids[row, end:after], role[row, end:after] = middle, TEMPLATE
        if answers:
            tokens, forks = answers[row]
            answer = slice(after, after + len(tokens))
            ids[row, answer], fork[row, answer], role[row, answer] = tokens, forks, ANSWER
    used = int((role != PAD).sum(axis=1).max(initial=FIRST))
    return Prompted(ids[:, :used], role[:, :used], stop[:, :used], fork[:, :used])


def _answer(tokenizer: Tokenizer, classes: Sequence[str], label: int, answers_of: Mapping[int, Answer] | None) -> Answer:
    if answers_of is not None:
        return answers_of[label]
    tokens = answer_ids(tokenizer, classes[label])
    return tokens, [0] * len(tokens)


N_TEXTS, _SEED = 120, 11
N_SENTENCES = 32
N_FAMILIES = 6  # text i belongs to family i mod N_FAMILIES


@lru_cache(maxsize=4)
def encoded(backbone: str, length: int) -> NDArray[np.int32]:
    """Encoded texts of the synthetic corpus's public companion, int32 [N_TEXTS, length, planes]."""
    return plain_language.read(synthetic.companion(N_TEXTS, _SEED), backbone, length)


@lru_cache(maxsize=4)
def sentences(backbone: str, length: int) -> NDArray[np.int32]:
    """Encoded sentences of Wikipedia, or invented ones where those are missing, int32 [N_SENTENCES, length, planes]."""
    from dpcl_core.data import load

    all_sentences = load.public_sentences().content
    assert isinstance(all_sentences, Texts)
    rows = np.linspace(0, len(all_sentences), N_SENTENCES, endpoint=False).astype(np.int64)
    return plain_language.read(all_sentences.take(rows), backbone, length)


def counts(backbone: str, length: int) -> NDArray[np.int64]:
    """Token counts of each family's texts, int64 [families, size]."""
    tokens, size = encoded(backbone, length)[:, :, TOKEN], plain_language.load_tokenizer(backbone).size
    return np.stack([sensitivity.counts(tokens[family::N_FAMILIES], size) for family in range(N_FAMILIES)])


Planes = NDArray[np.int32]


def planes(examples: Examples) -> Planes:
    """Encoded texts int32 [n, length, planes]."""
    return examples.inputs.astype(np.int32, copy=False)
