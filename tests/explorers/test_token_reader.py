"""The process that reads for a page: same scores as in one's own process, another question after it died, no torch here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from dpcl_core.data.texts import Span, Texts
from dpcl_core.explorers import tokens
from dpcl_core.explorers.token_reader import ReaderEnded, TokenReader
from dpcl_core.methods.language import sensitivity

TEXTS = Texts(["Ann paid 40 dollars.", "The the the.", ""], [(Span(0, 3, "NAME"),), (), ()])
TASKS = (("Ann paid.", "Bob paid."), ("The end of it.",))


@pytest.fixture
def reader() -> Iterator[TokenReader]:
    """With the bundled model, which needs no torch: the process and its protocol are the same."""
    made = TokenReader("lm-tiny")
    yield made
    made.close()


def test_it_scores_as_this_process_does(reader: TokenReader) -> None:
    found = reader.scored(TEXTS, ("a", "b", "c"), TASKS)
    counts = tokens.counted([Texts(list(task)) for task in TASKS])
    expected = tokens.scored(TEXTS, sensitivity.commonness(counts), ["a", "b", "c"])
    for one, other in zip(found, expected, strict=True):
        assert (one.tokens, one.is_stop, one.kinds, one.label) == (other.tokens, other.is_stop, other.kinds, other.label)
        np.testing.assert_allclose(one.probability, other.probability, rtol=1e-5)
        np.testing.assert_allclose(one.commonness, other.commonness, rtol=1e-12)


@pytest.mark.slow
def test_without_noise_all_is_read_and_another_tokenization_is_refused(reader: TokenReader) -> None:
    n_tokens = len(reader.scored(TEXTS.take(np.array([0])), ("",))[0].tokens)
    read = reader.read(TEXTS.strings[0], [0.0] * n_tokens, 1)
    assert read is not None
    assert "".join(read[0]) == TEXTS.strings[0]
    assert all(read[1])
    blurred = reader.read(TEXTS.strings[0], [1000.0] * n_tokens, 1)
    assert blurred is not None
    assert sum(blurred[1]) < n_tokens
    assert reader.read(TEXTS.strings[0], [0.0], 1) is None


def test_a_dead_process_is_told_and_the_next_question_starts_another(reader: TokenReader) -> None:
    reader.scored(TEXTS, ("", "", ""))
    process = reader._process
    assert process is not None
    process.kill()
    process.wait()
    assert reader.scored(TEXTS, ("", "", ""))[0].tokens
    with pytest.raises(ReaderEnded, match="ended by itself"):
        reader.read("x", [0.0], -1)  # no such number of releases: the process fails


def test_a_model_that_is_missing_is_told_with_its_repair(reader: TokenReader) -> None:
    other = TokenReader("hf:nobody/nothing")
    with pytest.raises(ReaderEnded, match=r"data\.backbone"):
        other.scored(TEXTS, ("", "", ""))
    other.close()


def test_the_page_s_end_loads_no_torch() -> None:
    code = "import sys, dpcl_core.explorers.token_reader; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
