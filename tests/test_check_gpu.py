"""The script that tries a graphics card: on the processor, and on a pretended card; and the page that shows its record."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from dpcl_core.backbones import catalog
from scripts import check_gpu, docs_pages
from scripts.check_gpu import TINY
from tests.support import second_device
from tests.support.tiers import quick


@pytest.fixture(autouse=True)
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One network, one model and two runs, in a home and a record of their own."""
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.setattr(check_gpu, "DOCUMENT", tmp_path / "gpu.json")
    monkeypatch.setattr(check_gpu, "_NETWORKS", ("vit-cifar100", "no-such-network"))
    monkeypatch.setattr(check_gpu, "_MODELS", ("lm-tiny",))
    monkeypatch.setattr(check_gpu, "RUNS", {name: check_gpu.RUNS[name] for name in ("cosine", "federated")})


def test_on_a_processor_every_path_is_tried_and_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_gpu.main(["--device", "cpu"]) == 0
    said = capsys.readouterr().out
    parts = [line.partition(":")[0] for line in said.splitlines()]
    assert {"neighbours", "features", "precision", "steps", "sums", "runs"} <= set(parts)
    assert parts.count("steps") == 5  # FiLM and LoRA, for one model and for several, and texts, each beside Opacus
    assert "neighbours: lm-tiny: 0 texts" in said
    assert "nothing is written" in said
    assert not check_gpu.DOCUMENT.exists()


def test_its_own_steps_and_those_of_opacus_leave_nothing_behind_on_a_card() -> None:
    with second_device.attached():
        parts = (check_gpu.steps, check_gpu.neighbours, check_gpu.exact_sums)
        rows = [row for part in parts for row in part(second_device.NAME, TINY)]
    assert [row.error for row in rows] == [None] * 9


@pytest.mark.skipif(catalog.available(catalog.card("lite0")) is not None, reason="lite0 is not here: dpcl fetch lite0")
@pytest.mark.parametrize("device", quick(1, ["cpu", second_device.NAME]))
def test_adapters_that_read_kept_maps_are_timed_too(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_gpu, "_NETWORKS", ("lite0",))
    monkeypatch.setattr(check_gpu, "_MODELS", ())
    with second_device.attached() if device == second_device.NAME else nullcontext():
        rows = list(check_gpu.steps(device, TINY))
    whats = [f"{kind} on lite0, 4 pictures{aside}" for kind in ("FiLM", "LoRA") for aside in ("", ", 5 models side by side")]
    assert [(row.what, row.error) for row in rows] == [(what, None) for what in whats]


@pytest.mark.parametrize("is_run", [False, True])
def test_the_page_shows_the_record_or_says_that_there_is_none(is_run: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_pages, "GPU", check_gpu.DOCUMENT)
    if is_run:
        machine = {"card": "NVIDIA Y", "memory": "80 GB", "torch": "2.13.0"}
        rows = [
            {"part": "steps", "what": "FiLM", "unit": "pictures a second", "ours": 400.0, "other": 200.0, "error": None},
            {"part": "runs", "what": "cosine", "unit": "seconds", "ours": None, "other": None, "error": "lost"},
        ]
        record = {"date": "2030-01-02", "commit": "abc1234", "machine": machine, "seconds": 300, "rows": rows}
        check_gpu.DOCUMENT.write_text(json.dumps(record), encoding="utf-8")
    page = docs_pages.pages_made()["gpu.md"]()
    if is_run:
        for shown in ("NVIDIA Y", "2030-01-02", "abc1234", "| FiLM | pictures a second | 400 | 200 | 2 |", "lost"):
            assert shown in page
        assert "Nobody has" not in page
    else:
        assert "Nobody has run this on a graphics card yet" in page
        assert "|" not in page
