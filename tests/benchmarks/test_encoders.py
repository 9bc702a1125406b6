"""Budgets of encoding texts (`make bench`): paid once for each text, and next to nothing ever after."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core.backbones import extractor
from dpcl_core.data.load import public_sentences
from dpcl_core.data.texts import Texts

NOISE = 1.5


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Texts:
    """A thousand public sentences, and a home without features."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    content = public_sentences().content
    assert isinstance(content, Texts)
    return content.take(np.arange(1000))


def test_a_thousand_sentences(texts: Texts) -> None:
    """8 CPU seconds with the weights read before (9 on a machine under full load, 2026-11-21)."""
    extractor.features("minilm", Texts(["The weights are read."]))
    start = time.process_time()
    assert extractor.features("minilm", texts).shape == (1000, 384)
    assert time.process_time() - start < 8 * NOISE


def test_the_same_sentences_again_and_half_of_them(benchmark: BenchmarkFixture, texts: Texts) -> None:
    """From the cache of the set in 20 ms; of texts of which every one is known in a tenth of a second."""
    extractor.features("minilm", texts)
    start = time.process_time()
    extractor.features("minilm", texts.take(np.arange(500)))
    assert time.process_time() - start < 0.1 * NOISE
    benchmark(extractor.features, "minilm", texts)
    assert benchmark.stats.stats.median < 0.02 * NOISE
