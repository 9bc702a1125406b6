"""Prompts of a language model: encoded text, a template, and the label's name as the answer.

The text comes before the template, so that the likelihood of its tokens does not depend on the task:

    text ⏎ task: label ∎
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.texts import PADDING, STOP, TOKEN

if TYPE_CHECKING:
    from dpcl_core.backbones.language.tokenizer import Tokenizer

PAD, TEMPLATE, TEXT, ANSWER = 0, 1, 2, 3  # roles of tokens
Answer = tuple[list[int], list[int]]  # tokens of a label's name, and the fork of each
FIRST = 1  # column of a text's first token: the start-of-text token precedes every text


@dataclass(frozen=True, slots=True, eq=False)
class Prompted:
    """Texts with template and answer, padded at the end; token k of a text is in column `FIRST` + k.

    `ids` int64 [n, S], 0 where padded; `role` int8 [n, S]; `stop` bool [n, S]: in a stop word, which template and answer are
    not; `fork` int64 [n, S]: of an answer's token, the place in `forks.Forks` where it is one of several that could follow;
    0 where it is the only one, and outside answers.
    """

    ids: NDArray[np.int64]
    role: NDArray[np.int8]
    stop: NDArray[np.bool_]
    fork: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)


def template(name: str) -> str:
    """The template between a text and its label in the task of this name; the label follows after a blank."""
    return f"\n{name}:"


def answer_ids(tokenizer: Tokenizer, label: str) -> list[int]:
    """The tokens of a label's name as an answer, with the end-of-text token, so that no answer is a prefix of another."""
    return [*tokenizer.encode(f" {label}")[0], tokenizer.eos]


def prompted(
    tokenizer: Tokenizer,
    inputs: NDArray[np.int32],
    labels: NDArray[np.int64] | None,
    classes: Sequence[str],
    name: str,
    answers_of: Mapping[int, Answer] | None = None,
) -> Prompted:
    """Prompts of one task's texts, with their answers; `labels` None: without answers, for prediction.

    Args: inputs int32 [n, length, planes] from `backbones.language.reader`; labels int64 [n], indices into `classes`;
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
