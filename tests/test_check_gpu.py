"""The script that tries a graphics card: on the processor, and on a pretended card; and the page that shows its record."""

import json
from pathlib import Path

import pytest

from scripts import check_gpu, docs_pages
from scripts.check_gpu import TINY
from tests.support import second_device
from tests.support.asserting import includes


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
