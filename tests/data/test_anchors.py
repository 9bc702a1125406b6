"""Public sentences: of the Wikipedia where they are, invented ones elsewhere, and named truthfully."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcl_core.data import anchors
from dpcl_core.data.texts import Sentences, Texts
from dpcl_core.errors import BadInput
from tests.data.making import write


def test_without_a_file_they_are_invented_and_say_so(data_dir: Path) -> None:
    found = anchors.public()
    assert isinstance(found.content, Texts)
    assert found.title == "2,000 invented texts of this project's public corpus"
    assert len(found.content) == len(found.rows) == 2_000
    assert found.content.digest() == anchors.public().content.digest()


def test_sentences_of_the_wikipedia_are_taken_where_they_are(data_dir: Path) -> None:
    write(data_dir / "anchors_wikipedia", "anchors", text=[f"Sentence {n} of this file." for n in range(2_100)])
    found = anchors.public()
    assert found.title == "2,000 sentences of the English Wikipedia"
    tagged = anchors.public(is_tagged=True)
    assert isinstance(tagged.content, Sentences)
    assert tagged.title == "2,000 words of 500 sentences of the English Wikipedia"
    assert len(tagged.content) == 2_500
    per_sentence = np.bincount(tagged.content.sentence_of[tagged.rows])
    assert per_sentence.tolist() == [4] * 500
    assert len(set(tagged.rows.tolist())) == 2_000


def test_a_file_without_sentences_is_refused(data_dir: Path) -> None:
    write(data_dir / "anchors_wikipedia", "anchors", title=["a"])
    with pytest.raises(BadInput, match=r"anchors.parquet = title: must have a column text"):
        anchors.public()
    write(data_dir / "anchors_wikipedia", "anchors", text=[" "])
    with pytest.raises(BadInput, match="at least one public sentence"):
        anchors.public()
