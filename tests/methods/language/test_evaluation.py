"""Answers: against whole sequences read one by one, and what a model writes of its own accord."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpcl_core.methods.language import evaluation
from dpcl_core.methods.language.public_text import answer_ids, prompted, template
from tests.methods.language import tiny

NAME = "pets"


def likelihood_one_by_one(net: tiny.Adapted, string: str, answer: list[int], length: int) -> float:
    """Of one answer behind one prompt, without padding, cache, or anything shared."""
    letters = tiny.Letters()
    ids = [letters.bos, *letters.encode(string)[0][:length], *letters.encode(template(NAME))[0]]
    with torch.no_grad():
        logits = net.model(input_ids=torch.tensor([ids + answer])).logits[0].log_softmax(-1)
    return sum(float(logits[len(ids) - 1 + k, token]) for k, token in enumerate(answer))


@pytest.mark.parametrize("rows", [512, 4])
def test_ranking_equals_reading_every_pair_alone(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_ROWS", rows)
    net, inputs = tiny.adapted(), tiny.encoded(tiny.STRINGS)
    found = evaluation.label_scores(net, tiny.Letters(), inputs, (0, 2), tiny.CLASSES, NAME, device="cpu")
    assert np.isneginf(found[:, 1]).all()  # not in the task's list
    for label in (0, 2):
        answer = answer_ids(tiny.Letters(), tiny.CLASSES[label])
        expected = [likelihood_one_by_one(net, string, answer, 16) for string in tiny.STRINGS]
        np.testing.assert_allclose(found[:, label], expected, rtol=0, atol=1e-4)


def test_no_texts_and_no_labels() -> None:
    net = tiny.adapted()
    assert evaluation.label_scores(net, tiny.Letters(), tiny.encoded(()), (0,), tiny.CLASSES, NAME, device="cpu").shape == (
        0, 3
    )
    none = evaluation.label_scores(net, tiny.Letters(), tiny.encoded(("x",)), (), tiny.CLASSES, NAME, device="cpu")
    assert np.isneginf(none).all()


def greedy_one_by_one(net: tiny.Adapted, string: str, most: int) -> list[int]:
    letters = tiny.Letters()
    ids = [letters.bos, *letters.encode(string)[0][:16], *letters.encode(template(NAME))[0]]
    written: list[int] = []
    for _ in range(most):
        with torch.no_grad():
            written.append(int(net.model(input_ids=torch.tensor([ids + written])).logits[0, -1].argmax()))
    return written


def test_writing_equals_a_loop_without_memory() -> None:
    net = tiny.adapted(seed=3)
    letters, inputs = tiny.Letters(), tiny.encoded(tiny.STRINGS)
    texts = prompted(letters, inputs, None, tiny.CLASSES, NAME)  # type: ignore[arg-type]
    batch = evaluation.batch_of(texts, np.arange(len(texts)), "cpu")
    found: list[list[int]] = []

    def note(tokenizer: object, ids: list[int]) -> str:
        found.append(ids)
        return ""

    patched = pytest.MonkeyPatch()
    patched.setattr(evaluation, "_text", note)
    evaluation._greedy(net, batch, letters, 6)  # type: ignore[arg-type]
    patched.undo()
    assert found == [greedy_one_by_one(net, string, 6) for string in tiny.STRINGS]
    assert len({tuple(ids) for ids in found}) > 1  # the texts matter


def test_only_a_whole_name_that_ends_is_an_answer() -> None:
    letters = tiny.Letters()
    good = letters.encode(" good")[0]
    assert evaluation._text(letters, [*good, letters.eos, 5]) == "good"  # type: ignore[arg-type]
    assert evaluation._text(letters, good) == ""  # type: ignore[arg-type]
    assert evaluation._text(letters, [letters.eos]) == ""  # type: ignore[arg-type]


def test_a_written_name_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    written = ["good", "bad", "nothing of the kind", "worse"]
    monkeypatch.setattr(evaluation, "_greedy", lambda net, batch, *rest: [written[row] for row in batch.rows])
    inputs = tiny.encoded(tiny.STRINGS[:4])
    found = evaluation.label_scores(
        tiny.adapted(), tiny.Letters(), inputs, (0, 1), tiny.CLASSES, NAME, "generate", device="cpu"
    )
    expected = np.full((4, 3), -np.inf)
    expected[0, 1] = expected[1, 0] = 0  # "worse" is no label of this task
    np.testing.assert_array_equal(found, expected)
