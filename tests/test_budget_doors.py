"""A budget for own data at every door: the command that declares it, and all that would release something."""

from pathlib import Path

import pytest

import dpcl_core
from dpcl_core.data import intake
from dpcl_core.data.intake import Asked
from dpcl_core.data.schema import Columns
from dpcl_core.runs.store import Store
from tests.support.asserting import document_of, printed, refusal_of
from tests.test_cli import called


def sets(*said: str) -> tuple[str, ...]:
    """As options of a command."""
    return tuple(word for one in said for word in ("--set", one))


RUN = sets("data.dataset=own:visits", "labels=prior", "scenario.tasks=2", "privacy.delta=1e-6")
ONE = (*RUN, *sets("privacy.epsilons=[1.0]", "seeds=[0]"))
FEDERATED = (*ONE, *sets("method=label-means", "scenario={kind = 'federated'}", "labels=prior-const"))


@pytest.fixture
def name(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of this computer's: own:visits."""
    monkeypatch.delenv("DPCL_DATA", raising=False)
    rows = "".join(f"{row % 9},{row % 5},{'ab'[row % 2]}\n" for row in range(400))
    (tmp_path / "visits.csv").write_text(f"x,y,risk\n{rows}", encoding="utf-8")
    with intake.taken_in(intake.Given(tmp_path / "visits.csv", Asked(Columns(target="risk")))) as taken:
        pass
    return taken


def test_a_budget_is_declared_shown_used_and_removed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "data", "budget", name).startswith("No budget is declared for own:visits")
    assert printed(capsys, "data", "budget", "visits", "--epsilon", "4").startswith(
        "Budget of own:visits for all runs on these rows: epsilon 4, delta 0.001, for one row left out. "
        "Spent: epsilon 0, delta 0. Left: epsilon 4, delta 0.001."
    )
    two = (*RUN, "--set", "privacy.epsilons=[1.0]", "--set", "seeds=[0, 1]")
    assert called("run", *two, "--json", capsys=capsys)[0] == 0
    (document,) = document_of(capsys, "data", "budget", name)
    assert 1.3 < document["spent"][0] < 1.6, "two models by their ledgers together: less than 2"
    assert (document["spent"][1], document["left"][0]) == (1e-6, pytest.approx(4 - document["spent"][0], abs=0.01))
    status, out, err = called("run", *RUN, "--set", "privacy.epsilons=[1.0, 8.0]", capsys=capsys)
    assert (status, out) == (2, "")
    assert err.startswith("privacy.epsilons = 1, 8: for all 10 models that is up to epsilon 45, delta 1e-05, and epsilon 2.")
    assert err.endswith("epsilon 4, delta 0.001; add --set 'privacy.epsilons=[1.0]' --set 'seeds=[0]'\n")
    assert called("data", "budget", name, "--none", capsys=capsys)[1].startswith("No budget is declared")


@pytest.mark.parametrize(
    "wrong", [("--delta", "1e-5"), ("--epsilon", "inf"), ("--epsilon", "4", "--none"), ("--epsilon", "4", "--delta", "0.5")]
)
def test_what_declares_nothing_is_one_sentence(wrong, name, capsys):
    status, out, err = called("data", "budget", name, *wrong, capsys=capsys)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert called("data", "budget", name, capsys=capsys)[1].startswith("No budget is declared")


@pytest.mark.parametrize(("door", "field"), [
    (("run", *ONE), "privacy.epsilons"),
    (("sweep", *ONE, "--over", "seeds=[[0], [1]]"), "privacy.epsilons"),
    (("tune", *ONE, "--set", "method=peft-ensemble", "--on", "private"), "data.dataset"),
    (("audit", *ONE, "--set", "method=pecl", "--attack", "planted-codes"), "data.dataset"),
    (("flower", "split", *FEDERATED, "--to", "parts"), "data.dataset"),
], ids=lambda door: door[0] if isinstance(door, tuple) else "")
def test_every_command_that_releases_something_is_refused(door, field, name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert called("data", "budget", name, "--epsilon", "0.5", capsys=capsys)[0] == 0
    status, out, err = called(*door, capsys=capsys)
    assert (status, out) == (2, "")
    assert err.startswith(f"{field} = ")
    assert "epsilon 0.5, delta 0.001 is left of the budget of all runs on these rows" in err
    assert (Store().unfinished(), Store().list_runs()) == ([], [])
    assert not (tmp_path / "parts").exists()


def test_python_refuses_it_too_and_says_what_fits(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    called("data", "budget", name, "--epsilon", "0.5", capsys=capsys)
    raw = {"data": {"dataset": name}, "labels": "prior", "scenario": {"tasks": 2}, "privacy": {"delta": 1e-6}}
    for act, *given in ((dpcl_core.run, raw), (dpcl_core.sweep, raw, {"labels": ["prior", "prior-const"]})):
        refused = refusal_of(act, *given, epsilons=[1.0], seeds=[0])
        assert (refused.field, refused.fix) == ("privacy.epsilons", {"privacy.epsilons": (0.5,)})
    assert Store().list_runs() == []
