"""Budgets of the networks that come by pip (`make bench`). Bounds are those of two idle cores, with half as much again."""

import copy
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from dpcl_core import engine, presets
from dpcl_core.backbones import catalog, extractor, timm_models
from dpcl_core.data import load
from dpcl_core.data.texts import Texts
from dpcl_core.events import TaskLearned
from dpcl_core.explorers.token_reader import TokenReader
from dpcl_core.spec import DataSpec
from tests.benchmarks.conftest import NOISE

GAIN = 1.3  # of channels-last memory over the plain layout, in pictures a second
SIDE, N_PICTURES, PAIRS = 128, 64, 5
N_TEXTS, LETTERS = 40, 300  # texts of about 72 tokens


def _needs(network: str, *, data: bool = False) -> pytest.MarkDecorator:
    lacking = catalog.available(catalog.card(network)) is not None or (data and "DPCL_DATA" not in os.environ)
    return pytest.mark.skipif(lacking, reason=f"needs {network}{' and the folder that DPCL_DATA names' if data else ''}")


@_needs("lite0")
def test_channels_last_against_the_plain_layout(benchmark: BenchmarkFixture) -> None:
    """One after the other, in pairs, on the same folded network: medians of five."""
    plain = copy.deepcopy(timm_models.frozen(catalog.card("lite0")))
    plain.classifier = torch.nn.Identity()
    timm_models.folded(plain)
    last = copy.deepcopy(plain).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    pictures = torch.rand((N_PICTURES, 3, SIDE, SIDE), generator=torch.Generator().manual_seed(0))
    without = list[float]()

    def read(network: torch.nn.Module, memory: torch.memory_format) -> float:
        given, started = pictures.contiguous(memory_format=memory), time.perf_counter()
        with torch.inference_mode():
            network(given)
        return time.perf_counter() - started

    read(plain, torch.contiguous_format)
    benchmark.pedantic(
        lambda: read(last, torch.channels_last), setup=lambda: without.append(read(plain, torch.contiguous_format)),
        rounds=PAIRS, warmup_rounds=1,
    )  # fmt: skip
    benchmark.extra_info["budget"] = median(without) / GAIN
    assert benchmark.stats.stats.median < median(without)


@_needs("lite0", data=True)
def test_photographs_from_a_cold_cache(benchmark, tmp_path, monkeypatch):
    """From the engine's start to the first point in less than 30 s, features of 4,000 pictures included."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    spec = presets.load("photos-cosine")

    def first_point() -> TaskLearned:
        return next(event for event in engine.run(spec) if isinstance(event, TaskLearned))

    benchmark.pedantic(first_point, rounds=1)


@pytest.fixture(scope="module")
def reader() -> Iterator[TokenReader]:
    """The process of the page on sensitive words, with the network read in."""
    found = TokenReader("smollm2")
    found.scored(Texts(["A first text."]), [""])
    yield found
    found.close()


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """News of about 72 tokens."""
    found = load.load_dataset(DataSpec(dataset="ag_news", train_per_class=40)).train.images
    assert isinstance(found, Texts)
    return [text for text in found.strings if len(text) >= LETTERS][:N_TEXTS]


@_needs("smollm2", data=True)
def test_a_text_read_by_smollm2(benchmark: BenchmarkFixture, reader: TokenReader, texts: list[str]) -> None:
    scored = benchmark.pedantic(lambda: reader.scored(Texts([texts[0][:LETTERS]]), [""]), rounds=5, warmup_rounds=1)
    assert 60 <= len(scored[0].tokens) <= 90


@_needs("smollm2", data=True)
def test_forty_texts_read_by_smollm2(benchmark: BenchmarkFixture, reader: TokenReader, texts: list[str]) -> None:
    heard = list[int]()
    cut = [text[:LETTERS] for text in texts]
    benchmark.pedantic(lambda: reader.scored(Texts(cut), [""] * len(cut), (), heard.append), rounds=3)
    assert len(set(heard)) > 1, "progress is told on the way"


@_needs("smollm2", data=True)
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_a_run_that_reads(benchmark, tmp_path_factory, monkeypatch, cache):
    """One seed of the headline run with three tasks: within 180 s, and within 60 s once its texts have been read."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path_factory.getbasetemp() / "home-that-reads"))
    spec = replace(presets.load("pecl-reading"), seeds=(0,))
    benchmark.pedantic(lambda: list(engine.run(spec)), rounds=1)


# Encoding texts: paid once for each text, and next to nothing ever after.


@pytest.fixture
def sentences(home: object) -> Texts:
    """A thousand public sentences, and a home without features."""
    content = load.public_sentences().content
    assert isinstance(content, Texts)
    return content.take(np.arange(1000))


def test_a_thousand_sentences(benchmark: BenchmarkFixture, sentences: Texts) -> None:
    """8 CPU seconds with the weights read before (9 on a machine under full load, 2026-11-21)."""
    extractor.features("minilm", Texts(["The weights are read."]))
    start = time.process_time()
    assert benchmark.pedantic(extractor.features, ("minilm", sentences), rounds=1).shape == (1000, 384)
    assert time.process_time() - start < 8 * NOISE


def test_the_same_sentences_again_and_half_of_them(benchmark: BenchmarkFixture, sentences: Texts) -> None:
    """From the cache of the set in 20 ms; of texts of which every one is known in a tenth of a second."""
    extractor.features("minilm", sentences)
    start = time.process_time()
    extractor.features("minilm", sentences.take(np.arange(500)))
    assert time.process_time() - start < 0.1 * NOISE
    benchmark(extractor.features, "minilm", sentences)
    assert benchmark.stats.stats.median < 0.02 * NOISE
