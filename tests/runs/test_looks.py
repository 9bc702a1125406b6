"""The count of looks at a person's own data: what counts, what it adds up to, and where it is said."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dpcl_core import checks, export
from dpcl_core.runs import looks
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.store import Store
from dpcl_core.runs.studies import Studies
from dpcl_core.spec import RunSpec
from dpcl_core.tuning import settings
from dpcl_core.tuning.settings import Trial
from tests.support import replay


def own(name: str = "own:mine", **privacy: object) -> RunSpec:
    raw = {"method": "cosine", "data": {"dataset": name}, "scenario": {"kind": "class-incremental", "tasks": 2}}
    return checks.parse({**raw, "labels": "prior", "privacy": {"epsilons": [1.0, 2.0], **privacy}, "seeds": [0, 1]})


def launched(store: Store, spec: RunSpec) -> str:
    run_id = store.create(spec)
    assert store.claim(run_id)
    store.end(run_id, "failed")
    return run_id


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path / 'store.sqlite'}")


def test_every_launched_run_is_one_more_look_and_budgets_add_up(store: Store) -> None:
    """Failed and deleted ones, too: what left them is not known. One that never began looked at nothing."""
    deleted = launched(store, own())
    store.delete(deleted)
    launched(store, own())
    launched(store, own("own:mine2"))
    launched(store, own("own:m_ne"))
    waiting = store.create(own())
    store.request_stop(waiting)
    found = looks.of(store, "own:mine")
    assert found is not None
    assert (found.runs, found.models, found.tuned, found.audits) == (2, 8, 0, 0)
    assert found.epsilon == pytest.approx(2 * 2 * (1.0 + 2.0))
    assert found.delta == pytest.approx(8 * 1e-5)
    assert found.sentence.startswith("Looks at own:mine so far: 2 runs, 8 models. All of them together: at most epsilon 12,")
    assert looks.of(store, "own:m_ne") == looks.Looks("own:m_ne", 1, 4, 0, 0, 6.0, pytest.approx(4e-5)), "_ is no wildcard"


def test_new_data_start_at_none_and_public_data_are_not_counted(store: Store) -> None:
    launched(store, own())
    assert looks.sentence(store, "own:new") == "Nobody has looked at own:new yet: the first run is the first look."
    assert looks.of(store, "digits") is None
    assert looks.sentence(store, "digits") == ""


@pytest.mark.parametrize("changes", [{"epsilons": [1.0, math.inf]}, {"noise": "seeded"}])
def test_one_look_without_a_bound_leaves_none_for_all(changes: dict[str, object], store: Store) -> None:
    launched(store, own())
    launched(store, own(**changes))
    found = looks.of(store, "own:mine")
    assert found is not None
    assert (found.epsilon, found.document()["epsilon"]) == (math.inf, "inf")
    assert "no bound, as one of them has none" in found.sentence


def test_settings_tried_on_the_data_and_audits_are_counted(store: Store) -> None:
    """A tuning on a public stand-in looks at that one."""
    base = checks.parse({
        "method": "peft-ensemble", "data": {"dataset": "own:mine"}, "labels": "prior", "seeds": [0],
        "scenario": {"kind": "class-incremental", "tasks": 2}, "privacy": {"epsilons": [1.0]},
    })  # fmt: skip
    studies = Studies(store)
    for on, proxy in (("private", None), ("public", "digits")):
        study_id = studies.create(settings.parse({"on": on, "proxy": proxy, "base": base, "n_trials": 3}))
        for number in range(2):
            studies.add_trial(study_id, Trial(number, 0.1, 8, 1.0, 0.5, None, 1.0))
        assert store.claim(study_id)
        store.end(study_id, "cancelled")
    found = looks.of(store, "own:mine")
    assert found is not None
    assert (found.runs, found.tuned, found.audits, found.epsilon) == (0, 2, 0, math.inf)
    run_id = launched(store, base)
    audit_id = Audits(store).create(run_id)
    assert store.claim(audit_id)
    found = looks.of(store, "own:mine")
    assert found is not None
    assert (found.runs, found.models, found.tuned, found.audits) == (1, 1, 2, 1)
    assert found.sentence.startswith("Looks at own:mine so far: 1 run, 1 model, 2 settings tried by tunings, 1 audit.")


def test_a_result_says_it_in_its_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_HOME", str(tmp_path))
    monkeypatch.setattr(export, "_figures", lambda *_: {})
    store = Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    spec = own()
    run_id = replay.fill(store, spec, replay.recorded(spec, n_tasks=2))
    launched(store, spec)
    files = export.bundle(store, run_id)
    for name in ("privacy.txt", "report.html"):
        assert "Looks at own:mine so far: 2 runs, 8 models." in files[name].decode(), name
    assert b'"looks": {\n  "dataset": "own:mine",\n  "runs": 2,' in files["result.json"]
