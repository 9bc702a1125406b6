"""A run as one page and as a notebook: everything in them, nothing fetched, and the code runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dpcl_core import checks, export, presets
from dpcl_core.data import catalog as datasets
from dpcl_core.papers import catalog
from dpcl_core.results import FIGURES, Result, question
from tests.support import replay
from tests.support.asserting import includes
from tests.test_examples import executed

SPEC = replay.a_spec(epsilons=(0.5, 8.0), seeds=(0, 1))


def test_the_report_is_one_page_with_everything_in_it() -> None:
    result = Result("0" * 12, "my run", SPEC, tuple(replay.recorded(SPEC)))
    page = result.to_html()
    assert len(page.encode()) < 1_000_000
    assert not re.findall(r"(?:src|href)=|@import|<script|url\((?!#)", page), "it asks for nothing"
    assert (page.count("<svg"), page.count("<h1>")) == (3, 1)
    assert all(result.figure(name).finding.split(":")[0] in page for name in FIGURES)
    for heading in ("What is protected", "Privacy card", "Settings", "How to repeat it", "How to cite it"):
        assert f"<h2>{heading}</h2>" in page
    includes(page, result.placed(SPEC.privacy.usual_epsilon), "Asked for epsilon 0.5: accounted epsilon")
    includes(page, "@article{tobaben2025", "count tasks from 0: after_task = 0 is after the first task")


def test_names_are_escaped() -> None:
    name = "<script>alert(1)</script>"
    assert name not in Result("0" * 12, name, SPEC, tuple(replay.recorded(SPEC))).to_html()


def test_a_run_that_ended_early_has_a_report_without_figures() -> None:
    assert "<svg" not in Result("0" * 12, "ended", SPEC, ()).to_html()


def test_the_question_is_the_presets_or_says_what_any_run_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = presets.load("digits-cosine")
    assert question(preset) == presets.about("digits-cosine").question
    other = replace(preset, seeds=(77,))
    assert question(other) == "What does privacy cost DP cosine classifier on Handwritten digits?"
    own = replace(preset, data=replace(preset.data, dataset="own:people"))
    monkeypatch.setattr(datasets, "called", {"own:people": "people (own data)"}.__getitem__)
    assert question(own) == "What does privacy cost DP cosine classifier on people (own data)?"


def test_citations_are_those_of_the_method() -> None:
    def cited(method: str, **more: object) -> set[str]:
        raw = {"method": method, "scenario": {"kind": "class-incremental", "tasks": 2}, "seeds": [0], **more}
        return set(re.findall(r"@\w+\{(\w+),", catalog.citations(checks.parse(raw))))

    assert cited("cosine") == {"dpcl2026", "tobaben2025"}
    assert cited("l2dp-ml") == {"dpcl2026", "lai2022"}
    assert cited("pecl") == {"dpcl2026", "zhan"}


def test_the_notebook_runs_and_says_what_the_run_did(tmp_path: Path) -> None:
    """As Jupyter runs it: code cells in order, in one namespace, without a network."""
    changes = {"seeds": [0], "data.train_per_class": 20, "data.test_per_class": 5, "privacy.epsilons": [4.0]}
    spec = checks.parse(checks.changed(presets.raw("digits-cosine"), changes))
    written = json.loads(export.run_notebook(spec))
    assert written["nbformat"] == 4
    assert all(cell["outputs"] == [] for cell in written["cells"] if cell["cell_type"] == "code")
    assert len({cell["id"] for cell in written["cells"]}) == len(written["cells"])
    path = tmp_path / "notebook.ipynb"
    path.write_text(json.dumps(written), encoding="utf-8")
    last = executed(path, tmp_path).splitlines()[-1].split()
    assert last[0] == "4.0"
    assert float(last[1]) <= 4.0
