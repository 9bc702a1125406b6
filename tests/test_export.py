"""What leaves the app as files, pages and notebooks: claims as claims, bounds as bounds, and code that runs."""

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from dpcl_core import api, checks, cli, engine, export, presets
from dpcl_core import events as said
from dpcl_core.data import catalog as datasets
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import catalog
from dpcl_core.privacy import card, card_document, statement
from dpcl_core.results import FIGURES, Result, question
from dpcl_core.runs import frames, worker
from dpcl_core.runs.audits import Audits, Studies
from dpcl_core.runs.store import Store
from tests.data.making import put
from tests.support import replay, tuned
from tests.support.asserting import complaint, includes, printed, refuses
from tests.support.signatures import TOLD, with_lists
from tests.support.texts import SCORED, with_texts
from tests.test_commands import executed

pytestmark = pytest.mark.usefixtures("home")
SPEC = replay.a_spec(epsilons=(0.5, math.inf), seeds=(0,))
FIELDS = {
    "guarantee": "nominal",
    "eps_claimed": 0.5,
    "eps_terms": {"ε1": 0.125, "ε1/γ_x": 0.0, "ε1/γ": 0.125, "ε2": 0.25},
    "delta_r_rule": None,  # settings of L2DP-ML, which this made-up run is not
    "theta_norm_rule": None,
    "eps_audit_lower": 5.61,
    "audit_name": "differencing the memory",
    "audit_trials": 1000,
}


@pytest.fixture
def files(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, "cosine": replace(methods.CARDS["cosine"], guarantee="nominal")})
    store = Store()
    return export.bundle(store, replay.fill(store, SPEC, replay.claimed(replay.recorded(SPEC)), name="claims"))


@pytest.mark.parametrize("name", ["export", "resume", "load"])
def test_only_a_run_with_results_of_its_own_is_exported(name, tmp_path, capsys):
    audit = Audits(Store()).create(replay.fill(Store(), SPEC, replay.recorded(SPEC)))
    tuning = Studies(Store()).create(tuned.a_tuning())
    for run_id in [audit] if name == "resume" else [tuning, audit]:  # a tuning is resumed
        if name == "load":
            refuses("a tuning, an audit or a part of a run", api.load, run_id)
            continue
        said = complaint(capsys, name, run_id, *(["--to", str(tmp_path / "DIR")] if name == "export" else []))
        assert "must be a run with results of its own" in said
    assert not (tmp_path / "DIR").exists()


def test_a_run_that_has_learned_nothing_is_not_exported() -> None:
    """Its privacy card would hold no model, and the check of cards would refuse it."""
    refuses("is queued and has learned no task: there is nothing to export", export.bundle, Store(), Store().create(SPEC))


def in_folder(target: Path) -> set[str]:
    return {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}


def test_an_export_takes_the_place_of_an_earlier_one_and_its_unprotected_classifiers(files, tmp_path):
    """Whoever passes the folder on must not give away sums without noise, of this run or of another."""
    noiseless = {"classifier/epsilon-inf-seed-0-task-1.safetensors": b"sums", "classifier/axes.safetensors": b"axes"}
    target = tmp_path / "DIR"
    export.write(target, files | noiseless | {"accuracy-naive-bayes.csv": b"", "leaks.csv": b""})
    assert (target / "classifier" / "epsilon-inf-seed-0-task-1.safetensors").exists()
    export.write(target, files)
    assert in_folder(target) == set(files)


def test_a_folder_of_other_things_is_refused_and_left_alone(files, tmp_path, capsys):
    mine, mixed = tmp_path / "mine", tmp_path / "mixed"
    put(mine / "notebook.ipynb", "mine")
    export.write(mixed, files)
    put(mixed / "classifier" / "thesis.txt", "mine")
    refused = {mine: "notebook.ipynb is there", mixed: "thesis.txt is no file", mine / "notebook.ipynb": "this is a file"}
    for target, named in refused.items():
        said = complaint(capsys, "export", "0123456789ab", "--to", str(target))
        includes(said, "must be a new or empty folder, or one that holds an export alone", named)
    assert (mine / "notebook.ipynb").read_text(encoding="utf-8") == "mine"
    assert in_folder(mixed) == {*files, "classifier/thesis.txt"}


def test_every_document_holds_claim_terms_and_audit(files: dict[str, bytes]) -> None:
    finite, without = json.loads(files["privacy.json"])
    (cell, _) = json.loads(files["result.json"])["cells"]
    for document in (finite, cell["guarantee"]):
        assert {name: document[name] for name in FIELDS} == FIELDS
        assert (document["epsilon"], document["claim"]["source"]) == ("inf", "Lai et al. 2022, Theorem 2")
        assert (document["claim"]["terms"], document["audit"]["lower_bound"]) == (FIELDS["eps_terms"], 5.61)
    assert (without["guarantee"], without["eps_claimed"]) == ("none", "inf")


def test_a_run_stored_before_references_were_has_chance_all_the_same(files: dict[str, bytes]) -> None:
    """The events of `replay` hold none, as those of older stores: chance comes from the label columns."""
    references = json.loads(files["result.json"])["references"]
    assert references.keys() == {"chance", "untrained", "ceiling"}
    assert 0.1 <= references["chance"] < 0.12
    assert (references["untrained"], references["ceiling"]) == (None, None)


def test_the_table_of_guarantees_has_the_same_columns(files: dict[str, bytes]) -> None:
    table = pd.read_csv(io.BytesIO(files["guarantees.csv"]))
    assert {"asked", "accounted", "delta", *FIELDS} == set(table.columns)
    row = table.iloc[0]
    assert (row["guarantee"], row["accounted"]) == ("nominal", math.inf)
    assert row["eps_terms"] == "ε1 = 0.125; ε1/γ_x = 0; ε1/γ = 0.125; ε2 = 0.25"


def test_text_and_figures_never_give_the_claim_alone(files: dict[str, bytes]) -> None:
    text = files["privacy.txt"].decode()
    assert "Asked for epsilon 0.5, which is claimed and not verified; accounted: no bound." in text
    assert "No bound: an audit proved at least 5.6." in text
    includes(text, "Audit: ε ≥ 5.6 at 95 % confidence, 1,000 releases a side", "Claimed by part: ε1: epsilon 0.125")
    for name in ("accuracy.html", "forgetting.html", "tradeoff.html", "accuracy.svg", "forgetting.svg", "tradeoff.svg"):
        assert "claimed ε = 0.5, ∞, not verified" in files[name].decode(), name


def test_bounds_are_exported_as_before() -> None:
    events = replay.recorded(SPEC)
    document = export.result_document("0" * 12, "finished", SPEC, events)
    guarantee = document["cells"][0]["guarantee"]  # type: ignore[index, call-overload]
    assert guarantee["guarantee"] == "proved"
    assert guarantee["eps_claimed"] is guarantee["eps_audit_lower"] is guarantee["claim"] is None
    assert "Asked for epsilon 0.5: accounted epsilon 0.5" in statement.text(frames.guarantees(events))
    assert all(isinstance(said.to_json(event), dict) for event in replay.claimed(events))


def test_a_real_run_of_the_method_carries_its_rules_terms_and_audit_into_every_file():
    raw = {
        "method": "l2dp-ml", "params": {"batch_size": 20, "delta_r": "witness"},
        "data": {"dataset": "digits", "train_per_class": 10}, "scenario": {"kind": "class-incremental", "tasks": 2},
        "privacy": {"epsilons": [0.5]}, "seeds": [0],
    }  # fmt: skip
    spec, store = checks.parse(raw), Store()
    files = export.bundle(store, replay.fill(store, spec, list(worker.real_engine(spec, "cpu"))))
    (document,) = json.loads(files["privacy.json"])
    assert document["guarantee"] == "nominal"
    assert (document["delta_r_rule"], document["theta_norm_rule"]) == ("witness", "rows")
    assert sum(document["eps_terms"].values()) == pytest.approx(document["eps_claimed"])
    assert document["eps_audit_lower"] > document["eps_claimed"]
    assert document["audit_trials"] == 1000
    assert "The noise is inside the model file" in files["privacy.txt"].decode()
    assert "claimed ε = 0.5, not verified" in files["tradeoff.html"].decode()


def test_what_was_said_of_texts_is_in_the_document_and_in_files(tmp_path: Path) -> None:
    store, events = Store(), with_texts(replay.recorded(SPEC, n_tasks=2))
    document = json.loads(json.dumps(export.result_document("0" * 12, "finished", SPEC, events), allow_nan=False))
    assert len(document["tokens"]) == 2 * len(document["retained"]) == 4 * len(list(SPEC.cells()))
    assert (tuple(document["tokens"][0]["texts"][0]["tokens"]), document["leaks"][0]["task"]) == (SCORED.tokens, -1)
    files = export.bundle(store, replay.fill(store, SPEC, events))
    for _ in range(2):  # the second takes the place of the first: every file is known as one of an export
        export.write(tmp_path / "DIR", files)
    for name in ("tokens", "retained", "leaks"):
        assert len(pd.read_csv(io.BytesIO(files[f"{name}.csv"]))) > 0
    plain = export.bundle(store, replay.fill(store, SPEC, replay.recorded(SPEC)))
    assert not {"tokens.csv", "retained.csv", "leaks.csv"} & set(plain)
    assert not {"tokens", "retained", "leaks"} & set(
        export.result_document("0" * 12, "finished", SPEC, replay.recorded(SPEC))
    )


def test_planted_secrets_are_told_in_one_line_a_budget() -> None:
    lines = export.leaks_text(with_texts(replay.recorded(SPEC, n_tasks=2)), SPEC).splitlines()
    assert len(lines) == len(SPEC.privacy.epsilons)
    assert lines[0] == (
        "epsilon 0.5: secrets planted 16 times: exposure 11.5 bits after the last task measured; 1.8 before the first; "
        "controls 1.4; 0 % printed by greedy continuation; epsilon at least 0.4 measured"
    )
    assert export.leaks_text(replay.recorded(SPEC), SPEC) == ""


def test_matched_lists_leave_as_tables_and_as_events(tmp_path: Path) -> None:
    store, events = Store(), with_lists(replay.recorded(SPEC, n_tasks=2))
    files = export.bundle(store, replay.fill(store, SPEC, events))
    for _ in range(2):  # the second takes the place of the first: every file is known as one of an export
        export.write(tmp_path / "DIR", files)
    assert len(pd.read_csv(io.BytesIO(files["list-entries.csv"]))) == 2 * 2 * len(TOLD.entries.client)
    assert {f"list-{name}.csv" for name in ("groups", "agreement", "anchors", "statistics")} < set(files)
    told = json.loads(files["result.json"])["signatures"]
    assert [(one["task"], one["matcher"]) for one in told] == [(task, TOLD.matcher) for task in (0, 0, 1, 1)]
    plain = export.bundle(store, replay.fill(store, SPEC, replay.recorded(SPEC)))
    assert not [name for name in plain if name.startswith("list-")]


REPORTED = replay.a_spec(epsilons=(0.5, 8.0), seeds=(0, 1))


def test_the_report_is_one_page_with_everything_in_it() -> None:
    result = Result("0" * 12, "my run", REPORTED, tuple(replay.recorded(REPORTED)))
    page = result.to_html()
    assert len(page.encode()) < 1_000_000
    assert not re.findall(r"(?:src|href)=|@import|<script|url\((?!#)", page), "it asks for nothing"
    assert (page.count("<svg"), page.count("<h1>")) == (3, 1)
    assert all(result.figure(name).finding.split(":")[0] in page for name in FIGURES)
    for heading in ("What is protected", "Privacy card", "Settings", "How to repeat it", "How to cite it"):
        assert f"<h2>{heading}</h2>" in page
    includes(page, result.placed(REPORTED.privacy.usual_epsilon), "Asked for epsilon 0.5: accounted epsilon")
    includes(page, "@article{tobaben2025", "count tasks from 0: after_task = 0 is after the first task")


def test_names_are_escaped() -> None:
    name = "<script>alert(1)</script>"
    assert name not in Result("0" * 12, name, REPORTED, tuple(replay.recorded(REPORTED))).to_html()


def test_a_run_that_ended_early_has_a_report_without_figures() -> None:
    assert "<svg" not in Result("0" * 12, "ended", REPORTED, ()).to_html()


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
    path = put(tmp_path / "notebook.ipynb", json.dumps(written))
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
    path = put(tmp_path / card_document.FILE, files[card_document.FILE])
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
    for more in ([], [forged]):
        line = complaint(capsys, "verify", str(exported), *more)
        assert r"\u001b]0;title\u0007\u009b2J\u202e all numbers match" in line


@pytest.mark.parametrize("content", [b"", b"no card", b"{}", b"\x89PNG"])
def test_a_file_that_is_no_card_is_one_sentence(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path / "file", content)
    assert "must be the privacy_card.json of an export" in complaint(capsys, "verify", str(path))
