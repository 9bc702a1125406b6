"""Every method that uses torch, and the script that tries a card, on a pretended card."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpcl_core import engine
from dpcl_core.backbones import catalog, causal, encoders
from dpcl_core.events import CellFinished
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common import per_example_gradients
from dpcl_core.methods.features import adapters
from dpcl_core.methods.features.adapters import Kind
from dpcl_core.methods.features.side_by_side import Gradients as OfPictures
from dpcl_core.methods.language import gradients
from dpcl_core.methods.language.gradients import Gradients
from dpcl_core.methods.language.training import task_loss
from dpcl_core.privacy.noise import Batches, ReleaseNoise
from scripts import check_gpu, docs_pages
from scripts.check_gpu import TINY
from tests.methods import small_network
from tests.methods.language import tiny
from tests.methods.training import plan
from tests.support import second_device
from tests.support.asserting import includes, refuses
from tests.support.tiers import of_methods
from tests.test_neighbours import METHODS, D, Door, Raw, lies, spec

TASK = task_loss("full")
_TORCH = ("agem", "l2dp-ml", "dp-agem", "dp-coeff-memory", "independent-laplace", "lm-seqft", "lm-er", "lm-ewc", "lm-gem")
_TORCH += ("joint-network", "lm-olora", "lm-mtl", "pecl", "pecl-published")
_PICTURES: Door = ("image", ".parquet")
_CONSTANT = {"labels": "prior-const", "privacy": {"epsilons": [4.0, math.inf]}}
RUNS: Mapping[str, tuple[str, Door, Raw]] = {
    **{name: (name, *METHODS[name]) for name in _TORCH},
    **{
        kind: ("naive", _PICTURES, {**_CONSTANT, "params": {"epochs": 1, "sample_rate": 0.5, "adapter": kind}})
        for kind in ("film", "lora")
    },
    "features": ("cosine", _PICTURES, {}),
    "last blocks": ("lm-seqft", METHODS["lm-seqft"][0], {"params": {**METHODS["lm-seqft"][1]["params"], "layers": 1}}),
    "pecl": ("pecl", METHODS["pecl"][0], {"params": {**METHODS["pecl"][1]["params"], "mean_score_std": 0.4}}),
}


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small pieces: they are filled up, and large ones would take long for nothing here.

    The script tries one network, one model and two runs, in a home and a record of their own.
    """
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.setattr(check_gpu, "DOCUMENT", tmp_path / "gpu.json")
    monkeypatch.setattr(check_gpu, "_NETWORKS", ("vit-cifar100", "no-such-network"))
    monkeypatch.setattr(check_gpu, "_MODELS", ("lm-tiny",))
    monkeypatch.setattr(check_gpu, "RUNS", {name: check_gpu.RUNS[name] for name in ("cosine", "federated")})
    monkeypatch.setattr(adapters, "_MOST_ON_CARD", 2)
    monkeypatch.setitem(gradients.SIDE_BY_SIDE, "cuda", 4)
    monkeypatch.setitem(per_example_gradients.AT_ONCE, "cuda", 8)
    causal._frozen.cache_clear()
    yield
    causal._frozen.cache_clear()


@pytest.mark.parametrize("name", of_methods(RUNS, also=("film", "last blocks")))
def test_a_run_on_a_second_device_leaves_no_tensor_behind(name, data_dir, tmp_path, monkeypatch):
    method, door, changes = RUNS[name]
    lies(door, D, tmp_path, monkeypatch)
    network = {} if method in _TORCH else {"backbone": "vit-cifar100"}
    whole = spec(method, changes, door[0])
    data = replace(whole.data, train_per_class=4, test_per_class=2, **network)
    batch = {"batch_size": 4} if hasattr(whole.params, "batch_size") else {}
    asked = replace(whole, data=data, params=replace(whole.params, **batch))
    with second_device.attached():
        events = list(engine.run(asked, device=second_device.NAME))
    assert any(isinstance(event, CellFinished) for event in events)


def test_a_text_encoder_reads_on_a_second_device() -> None:
    if catalog.available(catalog.card("minilm")) is not None:
        pytest.skip("the encoder's weights are not on this computer")
    with second_device.attached():
        states = encoders._states(encoders.opened_minilm(second_device.NAME)[1], [101, 7592, 102], second_device.NAME)
    assert len(states) == 3


def test_every_method_in_torch_is_run() -> None:
    """Those whose modules import torch, and the methods on features, whose adapters are run by name."""
    of_torch = {
        name
        for name, card in methods.CARDS.items()
        if card.params().inputs in ("images", "text") or "lifelong" in card.module
    }
    assert of_torch <= set(_TORCH)


# Faults, each where a tensor stays behind; every one must be caught.


def test_a_batch_of_texts_left_behind_is_caught() -> None:
    net = tiny.adapted(dtype=torch.float32)
    with second_device.attached():
        net.to(second_device.NAME)
        whole = Gradients(net, 0.3).of(gradients.batch_of(tiny.texts(), np.arange(3), second_device.NAME), TASK)
        assert all(map(second_device.is_on_card, whole))
        with pytest.raises(RuntimeError, match="same device"):
            Gradients(net, 0.3).of(gradients.batch_of(tiny.texts(), np.arange(3), "cpu"), TASK)


@pytest.mark.parametrize("kind", ["film", "lora"])
def test_a_last_layer_or_targets_left_behind_are_caught(kind: Kind) -> None:
    pictures, labels = small_network.pictures(4)
    with second_device.attached():
        modules = [small_network.start(kind, double=False).module().to(second_device.NAME) for _ in range(3)]
        sums = OfPictures(modules[0], 0.3, 2, second_device.NAME).of(pictures, labels)
        assert all(map(second_device.is_on_card, sums))
        refuses("same device", lambda: OfPictures(modules[1], 0.3, 2, "cpu").of(pictures, labels), error=RuntimeError)
        modules[2].head.to("cpu")
        with pytest.raises(RuntimeError, match="same device"):
            OfPictures(modules[2], 0.3, 2, second_device.NAME).of(pictures, labels)


@pytest.mark.parametrize("kind", ["film", "lora"])
@pytest.mark.parametrize("has_noise", [True, False])
@pytest.mark.parametrize("free", [1 << 30, 0])
def test_no_step_of_adapters_waits_for_the_card_but_for_noise(kind, has_noise, free, monkeypatch):
    """Once a step where there is noise; else only at the look at the weights after every third step, and after the last."""
    monkeypatch.setattr(adapters, "_STEPS_BETWEEN_LOOKS", 3)
    pictures, labels = small_network.pictures(4)
    n_steps, waits = 5, list[int]()
    with second_device.attached(free) as card:
        network = small_network.network(double=False)
        there = replace(network, features=network.features.to(second_device.NAME), device=second_device.NAME)
        starts = [adapters.fresh(there, kind, 2, range(4), 4, seed) for seed in range(2)]
        trainings = [
            adapters.Training(start, pictures, labels, float(has_noise), Batches(0.3, 0, n_batches=n_steps), ReleaseNoise())
            for start in starts
        ]
        steps = adapters.train_together(trainings, plan(n_steps=n_steps))
        for _ in steps:
            waits.append(card.waits)
            if len(waits) == 2 * n_steps:
                break
        steps.close()
    assert np.diff(waits[::2]).tolist() == [has_noise, 1 + has_noise, has_noise, 1 + has_noise]


def test_running_sums_left_behind_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor made inside a step, as `torch.zeros` without a device makes it; only the sums are in double precision."""
    zeros = torch.zeros

    def left_behind(*size: object, dtype: torch.dtype | None = None, device: object = None) -> torch.Tensor:
        return zeros(*size, dtype=dtype, device=None if dtype is torch.float64 else device)  # type: ignore[call-overload]

    monkeypatch.setattr(torch, "zeros", left_behind)
    net = tiny.adapted(dtype=torch.float32)
    with second_device.attached():
        net.to(second_device.NAME)
        with pytest.raises(RuntimeError, match="same device"):
            Gradients(net, 0.3).of(gradients.batch_of(tiny.texts(), np.arange(3), second_device.NAME), TASK)


def test_on_a_processor_every_path_is_tried_and_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_gpu.main(["--device", "cpu"]) == 0
    said = capsys.readouterr().out
    parts = [line.partition(":")[0] for line in said.splitlines()]
    assert {"neighbours", "features", "precision", "steps", "sums", "runs"} <= set(parts)
    assert parts.count("steps") == 5  # FiLM and LoRA, for one model and for several, and texts, each beside Opacus
    includes(said, "neighbours: lm-tiny: 0 texts", "nothing is written")
    assert not check_gpu.DOCUMENT.exists()


def test_its_own_steps_and_those_of_opacus_leave_nothing_behind_on_a_card() -> None:
    with second_device.attached():
        parts = (check_gpu.steps, check_gpu.neighbours, check_gpu.exact_sums)
        rows = [row for part in parts for row in part(second_device.NAME, TINY)]
    assert [row.error for row in rows] == [None] * 9


def test_the_page_shows_the_record_or_says_that_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_pages, "GPU", check_gpu.DOCUMENT)
    page = docs_pages.pages_made()["gpu.md"]()
    assert ("Nobody has run this on a graphics card yet" in page, "|" in page) == (True, False)
    rows = [
        {"part": "steps", "what": "FiLM", "unit": "pictures a second", "ours": 400.0, "other": 200.0, "error": None},
        {"part": "runs", "what": "cosine", "unit": "seconds", "ours": None, "other": None, "error": "lost"},
    ]
    machine = {"card": "NVIDIA Y", "memory": "80 GB", "torch": "2.13.0"}
    record = {"date": "2030-01-02", "commit": "abc1234", "machine": machine, "seconds": 300, "rows": rows}
    check_gpu.DOCUMENT.write_text(json.dumps(record), encoding="utf-8")
    page = docs_pages.pages_made()["gpu.md"]()
    includes(page, "NVIDIA Y", "2030-01-02", "abc1234", "| FiLM | pictures a second | 400 | 200 | 2 |", "lost")
    assert "Nobody has" not in page
