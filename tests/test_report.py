"""A run as one page and as a notebook: everything in them, nothing fetched, and the code runs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dpcl_core import checks, cli, engine, export, presets
from dpcl_core.data import catalog as datasets
from dpcl_core.papers import catalog
from dpcl_core.privacy import card, card_document
from dpcl_core.results import FIGURES, Result, question
from dpcl_core.runs.store import Store
from tests.support import replay
from tests.support.asserting import includes, printed
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

    assert (cited("cosine"), cited("l2dp-ml")) == ({"dpcl2026", "tobaben2025"}, {"dpcl2026", "lai2022"})
    assert cited("pecl") == {"dpcl2026", "zhan"}


def test_the_notebook_runs_and_says_what_the_run_did(tmp_path: Path) -> None:
    """As Jupyter runs it: code cells in order, in one namespace, without a network."""
    changes = {"seeds": [0], "data.train_per_class": 20, "data.test_per_class": 5, "privacy.epsilons": [4.0]}
    written = json.loads(export.run_notebook(checks.parse(checks.changed(presets.raw("digits-cosine"), changes))))
    assert written["nbformat"] == 4
    assert all(cell["outputs"] == [] for cell in written["cells"] if cell["cell_type"] == "code")
    assert len({cell["id"] for cell in written["cells"]}) == len(written["cells"])
    path = tmp_path / "notebook.ipynb"
    path.write_text(json.dumps(written), encoding="utf-8")
    last = executed(path, tmp_path).splitlines()[-1].split()
    assert last[0] == "4.0"
    assert float(last[1]) <= 4.0


# `verify` as a person calls it: a real export's card, one that was changed, and files that are no card.


@pytest.fixture
def exported(home: Path, tmp_path: Path) -> Path:
    """The card of a real run of the cosine classifier, two budgets and no noise, as an export writes it."""
    data = {"dataset": "digits", "train_per_class": 20}
    spec = checks.parse({"method": "cosine", "privacy": {"epsilons": [1.0, 8.0, "inf"]}, "seeds": [0], "data": data})
    store = Store()
    files = export.bundle(store, replay.fill(store, spec, list(engine.run(spec))))
    path = tmp_path / card_document.FILE
    path.write_bytes(files[card_document.FILE])
    return path


def test_an_exported_card_matches(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "verify", str(exported)).splitlines()
    assert [line.split("(")[0] for line in lines[:-1]] == [
        f"epsilon asked {epsilon}, seed 0: matches " for epsilon in ("1", "8", "inf")
    ]
    assert lines[-1] == card.CHECK_FINDS


def test_a_changed_card_differs_and_says_where(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(exported.read_text())
    document["cells"][1]["epsilon"] = 4.0
    exported.write_text(json.dumps(document))
    assert cli.main(["verify", str(exported), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["exit_status"] == 1
    assert [cell["verdict"] for cell in said["cells"]] == ["matches", "differs", "matches"]
    wrong = [number for number in said["cells"][1]["numbers"] if number["verdict"] == "differs"]
    assert [number["name"] for number in wrong] == ["epsilon"]
    assert (wrong[0]["stated"], wrong[0]["low"]) == (4.0, pytest.approx(8.0, rel=1e-4))


def test_an_unknown_event_ends_with_two(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(exported.read_text())
    document["cells"][0]["events"][0]["mechanism"] = "quantum"
    exported.write_text(json.dumps(document))
    assert cli.main(["verify", str(exported)]) == 2
    assert "cannot be checked: event 1 is not known: mechanism = quantum" in capsys.readouterr().out


def test_a_forged_card_neither_commands_the_terminal_nor_adds_a_line(exported, capsys):
    forged = "\x1b]0;title\x07\u009b2J\u202e\nall numbers match"
    document = json.loads(exported.read_text())
    document["cells"][0]["parts"][forged] = 3.0
    exported.write_text(json.dumps(document))
    assert cli.main(["verify", str(exported)]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert r"\u001b]0;title\u0007\u009b2J\u202e all numbers match: the events have no such part" in first
    assert [line.split(", ")[0] for line in others] == ["epsilon asked 8", "epsilon asked inf", "This finds inconsistency"]
    exported.write_text(json.dumps({**document, "version": forged}))
    for arguments in (["verify", str(exported)], ["verify", str(exported), forged]):
        assert cli.main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert r"\u001b]0;title\u0007\u009b2J\u202e all numbers match" in line


@pytest.mark.parametrize("content", [b"", b"no card", b"{}", b"\x89PNG"])
def test_a_file_that_is_no_card_is_one_sentence(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert cli.main(["verify", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "must be the privacy_card.json of an export" in err
