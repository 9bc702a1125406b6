"""Runs on a model with blocks below its adapters: alike with and without kept states, private to the same neighbours."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dpcl_core import paths
from dpcl_core.backbones import causal, plain_language
from dpcl_core.data.texts import PADDING, PLANES, TOKEN
from dpcl_core.methods.language import lazy_learner, public_text
from dpcl_core.scenarios.stream import Examples, Task
from tests.backbones import language_models
from tests.methods import pecl_small
from tests.methods.language import tiny
from tests.methods.training import public_context
from tests.support.tiers import quick

BACKBONE, LENGTH, N = "hf:somebody/gpt2", 10, 24
CLASSES = ("no", "yes", "now", "never")


@pytest.fixture(autouse=True)
def small_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    monkeypatch.delenv("DPCL_DATA", raising=False)
    file = language_models.put(tmp_path / "somebody--gpt2") / "model.safetensors"
    larger = {name: 10 * one if one.ndim == 2 else one for name, one in load_file(file).items()}  # so that it has opinions
    save_file(larger, file, metadata={"format": "pt"})
    of_models = causal._frozen, causal._public, plain_language.load_tokenizer
    for cached in (*of_models, public_text.sentences, public_text.encoded):
        cached.cache_clear()


def task(index: int) -> Task:
    """Texts of tokens from one of two ranges; the range tells the label."""
    labels = np.arange(N, dtype=np.int64) % 2
    inputs = np.zeros((N, LENGTH, PLANES), np.int32)
    inputs[:, :, TOKEN] = np.random.default_rng(index).integers(0, 40, (N, LENGTH)) + 60 * labels[:, None] + 100 * index
    for row in range(N):
        inputs[row, 3 + row % 7 :, TOKEN] = PADDING
    examples = Examples(inputs, 2 * index + labels)
    return Task(index, f"t{index}", examples, examples, (2 * index, 2 * index + 1))


def trained(method: str, epsilon: float, **params: object) -> tuple[Tensor, np.ndarray, lazy_learner.LazyLearner]:
    given = {"length": LENGTH, "epochs": 3, "batch_size": 8, "lora_rank": 2, "layers": 1, "adapts": "all", **params}
    is_local = params.get("mechanism") == "fn" or params.get("mode") == "local"
    adjacency = "replace" if is_local else "add-remove"
    spec = pecl_small.spec(method, epsilon, adjacency, backbone=BACKBONE, **given)
    learner, *_ = pecl_small.trained(spec, [task(0), task(1)], public_context(0, 4, 2 * N, 2, classes=CLASSES))
    return tiny.weights(learner._model.net), learner.scores(0, task(0))["rank"], learner


@pytest.mark.parametrize(("method", "epsilon", "params"), quick(2, [
    ("lm-seqft", 8.0, {}), ("lm-seqft", 8.0, {"mechanism": "fn"}), ("lm-er", 8.0, {}), ("lm-ewc", 8.0, {}),
    ("lm-gem", 8.0, {"memory_size": 8}), ("lm-olora", math.inf, {}), ("lm-mtl", 8.0, {}),
    ("pecl", 8.0, {"mean_score": "public"}), ("pecl", 8.0, {"mode": "local"}), ("pecl-published", 10.0, {}),
    ("pecl-published", 10.0, {"loss": "full", "score_model": "current"}),
]))  # fmt: skip
def test_a_run_is_the_same_whether_states_were_kept_or_not(method: str, epsilon: float, params: dict[str, object]) -> None:
    weights, scores, learner = trained(method, epsilon, **params)
    folder = paths.states_dir()
    assert any(folder.iterdir())
    warm_weights, warm_scores, _ = trained(method, epsilon, **params)
    shutil.rmtree(folder)
    cold_weights, cold_scores, _ = trained(method, epsilon, **params)
    for again, also in ((warm_weights, warm_scores), (cold_weights, cold_scores)):
        assert torch.equal(weights, again)
        np.testing.assert_array_equal(scores, also)
    assert torch.isfinite(weights).all()
    assert np.isneginf(scores[..., 2:]).all()  # another task's labels
    np.testing.assert_allclose(np.exp(scores[..., :2]).sum(axis=2), 1, rtol=1e-4)
    assert all(name.startswith("transformer.h.1.") for name in learner._model.net.layers)


def test_a_task_is_learned_above_the_cut() -> None:
    right = np.arange(N), task(0).test.labels
    before, after = (trained("lm-mtl", math.inf, epochs=20, learning_rate=rate)[1][0][right].mean() for rate in (1e-9, 0.02))
    assert after > before + 0.1


def test_noisy_copies_are_read_and_never_kept(tmp_path: Path) -> None:
    """Under mechanism = fn only public texts and test texts are in the folder: as many with other training texts."""
    trained("lm-seqft", 8.0, mechanism="fn")
    kept = {path.name for path in paths.states_dir().iterdir()}
    shutil.rmtree(paths.states_dir())
    trained("lm-seqft", 1.0, mechanism="fn")
    assert {path.name for path in paths.states_dir().iterdir()} == kept
