"""A client's side: answers the server's questions from its own rows, each at most once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from dpcl_core import paths
from dpcl_core.errors import BadInput
from dpcl_core.flower import participant, wire
from dpcl_core.flower.participant import SPENT, Participant
from dpcl_core.flower.wire import Record
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.federated.questions import OfClients, Question

OVER = "over"  # a file that says that the server has ended the run


def reply(folder: Path, record: Mapping[str, object]) -> Record:
    """The answer to what the server sent; a refusal in one sentence where there is none to give.

    In a release a client answers a question once, whoever asks: the folder remembers it, restarts included. So no server can
    make it spend more than the budget that its own settings give.
    """
    try:
        part = participant.read(folder)
        if part.number is None:
            raise BadInput("folder", str(folder), "must be a client's, not the server's")
        if record.get("kind") == "hello":
            return wire.introduced(part.number, part.key, participant.digest(part), _n_answered(folder))
        if record.get("kind") == "goodbye":
            (folder / OVER).touch()
            return wire.refused("")
        return _answer(part, folder, wire.question_of(record))
    except BadInput as error:
        return wire.refused(" ".join(str(error).split()))


def _answer(part: Participant, folder: Path, question: Question) -> Record:
    assert part.number is not None
    if not 0 <= question.task < part.context.n_tasks:
        raise BadInput("question.task", question.task, f"must be one of {part.context.n_tasks}, from 0")
    learner = methods.maker(part.spec.method)(part.spec, list(part.spec.cells()), part.context)
    task = part.stream.tasks[question.task]
    vectors = cast(OfClients, learner).answers(task, question, np.array([part.number]))
    if vectors.shape != (1, question.width):
        raise BadInput("question.width", question.width, f"must be {vectors.shape[1]}")
    if part.spec.privacy.noise == "release":
        _spend(folder, question)
    return wire.answered(part.key, question, vectors[0])


def _spend(folder: Path, question: Question) -> None:
    """Remembers the question, before its answer leaves, and through a power cut. Raises BadInput for one answered before."""
    (folder / SPENT).mkdir(exist_ok=True)
    try:
        os.close(os.open(folder / SPENT / f"{question.task}-{question.round}", os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        name = f"round {question.round} of task {question.task}"
        raise BadInput("question", name, "must be new: it was answered before, and each answer spends budget") from error
    for changed in (folder / SPENT, folder):
        paths.keep_names(changed)


def _n_answered(folder: Path) -> int:
    return len(list((folder / SPENT).glob("*")))
