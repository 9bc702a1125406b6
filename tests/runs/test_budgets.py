"""Budgets for own data: what counts against one, by which rule, and that nothing beyond it starts, by any door."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

import dpcl_core
from dpcl_core import checks
from dpcl_core.data import intake
from dpcl_core.data.intake import Asked
from dpcl_core.data.schema import Columns
from dpcl_core.errors import BadInput
from dpcl_core.events import Mechanism, Planned, Spending, Written
from dpcl_core.privacy import gaussian
from dpcl_core.runs import administration, charges, resumption, shards, tables
from dpcl_core.runs.administration import declare_budget as declare
from dpcl_core.runs.audits import Audits, Studies
from dpcl_core.runs.queue import Limits, Visitor
from dpcl_core.runs.run import Split
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import RunSpec
from dpcl_core.tuning import settings
from tests.data.making import put
from tests.support import replay
from tests.support.asserting import called, complaint, document_of, includes, printed, refusal_of
from tests.support.postgres import both
from tests.support.together import together

ROWS = [f"{row},{row % 7},{'ab'[row % 2]},{'cd'[row % 3 > 0]},p{row % 90}" for row in range(300)]
DELTA = 1e-6


def taken_in(path: Path, rows: Sequence[str] = ROWS, owner: str = "", **columns: str) -> str:
    """own:NAME of these rows in a file. `owner`: a visitor of a server that others reach."""
    put(path, "\n".join(["x,y,one,two,who", *rows]))
    with intake.taken_in(intake.Given(path, Asked(Columns(**{"target": "one", **columns})), owner, apart=owner)) as name:
        pass
    return name


@pytest.fixture
def data(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("DPCL_DATA", raising=False)
    return taken_in(home / "visits.csv")


def asking(name: str, epsilons: Sequence[float] = (1.0,), seeds: Sequence[int] = (0,), **changes: object) -> RunSpec:
    raw = {"method": "cosine", "data": {"dataset": name}, "labels": "prior", "seeds": list(seeds)}
    privacy = {"epsilons": list(epsilons), "delta": DELTA, **changes.pop("privacy", {})}
    return checks.parse({**raw, "scenario": {"kind": "class-incremental", "tasks": 2}, "privacy": privacy, **changes})


def begun(store: Store, spec: RunSpec, noise: float = 1.0) -> str:
    """A run that has entered its plan: one Gaussian sum a model, of its own noise times this."""
    ledgers, precision = [], 0.0
    for epsilon in spec.privacy.epsilons:
        sigma = noise * gaussian.sigma(epsilon, spec.privacy.delta)
        entry = Spending("sums", 0, (0,), 1, Mechanism("gaussian", sigma, (1.0,)), spec.params.shares_batches)
        ledgers.append((epsilon, Written("add-remove", "once", (entry,))))
        precision += len(spec.seeds) / sigma**2
    whole = gaussian.epsilon(precision**-0.5, spec.privacy.delta)
    plan = Planned(whole, spec.privacy.delta, 60, 2, (tuple(spec.cells()),), tuple(ledgers))
    return replay.fill(store, spec, [plan], status="failed")


def launched(store: Store, spec: RunSpec, end: str = "failed") -> str:
    return replay.ended(store, store.create(spec), end)


def spent(store: Store, name: str) -> tuple[float, float]:
    (budget,) = administration.budgets_of(store, name)
    return budget.spent


def refused(store: Store, spec: RunSpec) -> BadInput:
    before = len(store.unfinished())
    refusal = refusal_of(store.create, spec)
    assert len(store.unfinished()) == before
    return refusal


# How it adds up


def test_plans_of_all_runs_add_up_as_one_gaussian(data: str, store: Store) -> None:
    """Noise sigma_i on one row each: together mu^2 is the sum of 1 / sigma_i^2, at one delta; far less than the sum."""
    declare(store, data, 20.0)
    for epsilon in (1.0, 2.0, 1.0):  # the same settings twice are two runs
        begun(store, asking(data, [epsilon], [0, 1]))
    sigmas = [gaussian.sigma(epsilon, DELTA) for epsilon in (1.0, 2.0, 1.0) for _ in range(2)]
    exact = gaussian.epsilon(1 / math.sqrt(sum(sigma**-2 for sigma in sigmas)), DELTA)
    epsilon, delta = spent(store, data)
    assert epsilon == pytest.approx(exact, rel=1e-3)
    assert epsilon >= exact
    assert epsilon < 0.8 * 2 * (1.0 + 2.0 + 1.0)
    assert delta == DELTA


def test_what_has_not_begun_costs_what_it_asks_for(data: str, store: Store) -> None:
    """One run by its plan; one that waits and one that failed before it, by epsilons and deltas."""
    declare(store, data, 40.0)
    begun(store, asking(data, [1.0]))
    launched(store, asking(data, [3.0]))
    store.create(asking(data, [0.25], [0, 1]))
    assert spent(store, data) == (pytest.approx(1.0 + 3.0 + 2 * 0.25, rel=1e-3), pytest.approx((1 + 1 + 2) * DELTA))


def test_a_plan_counts_and_not_the_wish(data: str, store: Store) -> None:
    """A model that was asked for epsilon 1 and makes half the noise costs what the half costs."""
    declare(store, data, 40.0)
    begun(store, asking(data), noise=0.5)
    assert spent(store, data)[0] == pytest.approx(gaussian.epsilon(gaussian.sigma(1.0, DELTA) / 2, DELTA), rel=1e-3)


@pytest.mark.parametrize("params", [{"budget": "per-task"}, {"mechanism": "fn", "budget_per": "token"}])
def test_an_epsilon_for_a_part_is_no_bound_for_the_whole(params: dict[str, str], data: str, store: Store) -> None:
    whole, part = (asking(data, method="lm-gem", params=one) for one in ({}, params))
    assert (charges.released_bound(whole, None), charges.released_bound(part, None)[0]) == ((1.0, DELTA), math.inf)


def test_models_on_the_same_batches_have_a_bound_from_their_plan_on(data: str, store: Store) -> None:
    """Before, their epsilons do not add up: a budget takes one of them at a time. Then all are one training."""
    several = asking(data, [1.0, 2.0], method="peft-ensemble", params={"adapter": "head"})
    run_id = begun(store, several)
    declare(store, data, 4.0)
    exact = gaussian.epsilon(1 / math.sqrt(sum(gaussian.sigma(one, DELTA) ** -2 for one in (1.0, 2.0))), DELTA)
    assert spent(store, data) == (pytest.approx(exact, rel=1e-3), DELTA)
    error = refused(store, several)
    assert "no bound is known for all 2 models" in error.allowed
    assert error.fix == {"privacy.epsilons": (1.0,)}
    administration.purge(store, data)
    assert store.present([run_id]) == {}


def test_a_row_within_a_client_costs_two_steps_and_a_row_of_another_schema_costs_a_person_everything(data, home, store):
    """Left out with the client, and back without: 2 epsilon at delta (1 + exp(epsilon)). Many rows of a person: no bound."""
    federated = asking(data, method="label-means", scenario={"kind": "federated", "clients": 4}, labels="prior-const")
    declare(store, data, 20.0)
    launched(store, federated)
    assert spent(store, data) == (2.0, pytest.approx(DELTA * (1 + math.e)))
    by_person = taken_in(home / "people.csv", person="who")
    assert spent(store, by_person) == spent(store, data)
    declare(store, by_person, 20.0)
    (budget,) = administration.budgets_of(store, data)
    assert (budget.unit, budget.spent[0]) == ("who", math.inf)
    assert "no bound is known" in budget.sentence(data)
    assert refused(store, asking(by_person)).fix == {}


@pytest.mark.parametrize(("changes", "fix"), [
    ({"privacy": {"epsilons": [1.0, math.inf]}}, {"privacy.epsilons": (1.0,)}),
    ({"privacy": {"noise": "seeded"}}, {"privacy.noise": "release"}),
    ({"privacy": {"adjacency": "replace"}}, {"privacy.adjacency": "add-remove"}),
    ({"labels": "data"}, {}),
    ({"method": "l2dp-ml"}, {}),
    ({"method": "agem"}, {}),
    ({"method": "dp-agem", "params": {"budget": "fixed"}}, {}),
])
def test_what_has_no_bound_does_not_fit(changes: dict[str, object], fix: object, data: str, store: Store) -> None:
    launched(store, asking(data, [0.5]))
    declare(store, data, 4.0)
    error = refused(store, asking(data, **changes))
    assert (error.field, error.fix) == ("privacy.epsilons", fix)
    includes(error.allowed, "no bound is known", "epsilon 3.5,")


# What is refused, and where


def test_a_run_beyond_the_budget_is_refused_with_what_is_left_and_what_fits(data: str, store: Store) -> None:
    declare(store, data, 4.0)
    launched(store, asking(data, [2.5]))
    error = refused(store, asking(data, [1.0, 1.2, 8.0], [3, 4]))
    assert (error.field, error.fix) == ("privacy.epsilons", {"privacy.epsilons": (1.2,), "seeds": (3,)})
    includes(error.allowed, "epsilon 1.5, delta 0.000999 is left", "epsilon 20.4, delta 6e-06")
    store.create(checks.parse(checks.changed(asdict(asking(data, [1.0, 1.2, 8.0], [3, 4])), error.fix)))
    assert refused(store, asking(data, [8.0])).fix == {"privacy.epsilons": (0.3,)}
    store.create(asking(data, [0.1]))
    store.create(asking(data, [0.2]))
    assert refused(store, asking(data, [0.001])).fix == {}, "nothing is left, by tenths that are no binary fractions"


def test_deltas_count_too(data: str, store: Store) -> None:
    declare(store, data, 100.0, 5e-6)
    store.create(asking(data, [1.0], [0, 1]))
    error = refused(store, asking(data, [1.0], [0, 1, 2, 3]))
    assert (error.field, error.fix) == ("privacy.delta", {"seeds": (0,)})
    store.create(asking(data, [1.0], [0, 1, 2]))
    assert refused(store, asking(data)).fix == {}


@both
def test_of_runs_that_are_queued_at_once_only_those_that_fit_are(home: Path, store: Store) -> None:
    name = taken_in(home / "visits.csv")
    declare(store, name, 4.0)
    outcomes: list[bool] = []

    def queue(_: int) -> None:
        try:
            Store().create(asking(name, [1.5]))
        except BadInput:
            outcomes.append(False)
        else:
            outcomes.append(True)

    together(queue, 6)
    assert (sorted(outcomes), spent(store, name)[0]) == ([False] * 4 + [True] * 2, 3.0)


def test_a_set_is_queued_whole_or_not_at_all(data: str, store: Store) -> None:
    declare(store, data, 4.0)
    refusal_of(lambda: Sets(store).create("sweep", {"small": asking(data, [1.0]), "large": asking(data, [3.5])}))
    assert (store.unfinished(), spent(store, data)) == ([], (0.0, 0.0))
    Sets(store).create("sweep", {"small": asking(data, [1.0]), "large": asking(data, [3.0])})
    assert spent(store, data)[0] == 4.0


@both
def test_audits_and_tunings_on_the_private_data_are_refused(home: Path, store: Store) -> None:
    """Numbers are read there without noise. A tuning on a public stand-in costs nothing."""
    name = taken_in(home / "visits.csv")
    base = asking(name, method="peft-ensemble")
    run_id = launched(store, base)
    declare(store, name, 4.0)
    private = settings.parse({"on": "private", "base": base, "n_trials": 3})
    for act, of in ((Audits(store).create, run_id), (Studies(store).create, private)):
        assert refusal_of(act, of).field == "data.dataset"
    Studies(store).create(settings.parse({"on": "public", "proxy": "digits", "base": base, "n_trials": 3}))
    assert spent(store, name)[0] == 1.0


def test_an_audit_before_the_declaration_leaves_no_bound(data: str, store: Store) -> None:
    run_id = launched(store, asking(data, method="peft-ensemble"))
    waits = Audits(store).create(run_id)
    declare(store, data, 4.0)
    assert spent(store, data)[0] == 1.0, "one that waits cannot start any more"
    assert not store.claim(waits)
    assert (store.get(waits).status, store.get(waits).error_kind) == ("failed", "wrong-input")
    declare(store, data, None)
    assert store.claim(Audits(store).create(run_id))
    declare(store, data, 4.0)
    assert spent(store, data)[0] == math.inf


def test_a_run_that_waits_does_not_start_under_a_budget_declared_since(data: str, store: Store) -> None:
    waiting = [store.create(asking(data, [epsilon])) for epsilon in (3.0, 2.0)]
    declare(store, data, 4.0)
    replay.ended(store, waiting[0], "failed")
    assert not store.claim(waiting[1])
    run = store.get(waiting[1])
    assert (run.status, run.error_kind, run.started) == ("failed", "wrong-input", None)
    assert "epsilon 1," in (run.error or "")
    assert spent(store, data)[0] == 3.0, "what never started has released nothing"


def test_a_part_of_a_run_is_counted_with_the_whole(data: str, store: Store) -> None:
    declare(store, data, 2.0)
    run_id = replay.claim(store, asking(data, [1.0], [0, 1]), split=Split(2, "local", "cpu"))
    shards._put_into_queue(store, run_id, [[0], [1]], "cpu")
    assert (len(shards.parts_of(store, run_id)), spent(store, data)[0]) == (2, 2.0)


# What stays counted


def test_a_resumed_run_is_counted_once_and_one_that_never_started_is_asked_again(data: str, store: Store) -> None:
    declare(store, data, 4.0)
    stopped, never = launched(store, asking(data, [2.0]), "cancelled"), store.create(asking(data, [2.0]))
    store.request_stop(never)
    assert spent(store, data)[0] == 2.0
    resumption.resume(store, stopped)
    replay.ended(store, stopped, "cancelled")
    assert spent(store, data)[0] == 2.0
    store.create(asking(data, [1.0]))
    assert refusal_of(resumption.resume, store, never).fix == {"privacy.epsilons": (1.0,)}
    assert store.status(never) == "cancelled"
    resumption.resume(store, stopped)
    declare(store, data, 1.5)
    store.request_stop(stopped)
    refusal_of(resumption.resume, store, stopped)
    refusal_of(store.retry, stopped)


def test_deleted_runs_stay_counted_and_so_do_runs_on_deleted_data(data: str, home: Path, store: Store) -> None:
    """Nor does the budget go with the data. Any other copy, schema or part of the rows has it."""
    declare(store, data, 4.0)
    run_id = begun(store, asking(data, [1.5], [0, 1]))
    whole = spent(store, data)[0]
    store.delete(run_id)
    assert spent(store, data)[0] == whole
    administration.empty_trash(store)
    assert spent(store, data) == (3.0, pytest.approx(2 * DELTA)), "without its plan, by what it asked for"
    administration.purge(store, data)
    again = taken_in(home / "again.csv")
    assert spent(store, again) == (3.0, pytest.approx(2 * DELTA))
    assert refused(store, asking(again, [1.1])).fix == {"privacy.epsilons": (1.0,)}
    for number, rows in enumerate((ROWS[::2], [*ROWS, "9,9,a,d,p"])):
        name = taken_in(home / f"other{number}.csv", rows, target="two")
        assert spent(store, name)[0] == 3.0, rows
        refused(store, asking(name, [1.1]))
    store.create(asking(again))
    assert spent(store, data if data == again else name)[0] == 4.0
    other = taken_in(home / "new.csv", [f"1{row}" for row in ROWS])
    assert administration.budgets_of(store, other) == []
    store.create(asking(other, [100.0]))


def test_a_budget_declared_again_takes_the_place_of_the_one_before(data: str, home: Path, store: Store) -> None:
    """Below what was spent nothing is left; without one there is no limit; another schema declares for all copies."""
    copy = taken_in(home / "copy.csv", target="two")
    launched(store, asking(data, [3.0]))
    declare(store, data, 4.0)
    declare(store, copy, 2.0, 1e-4)
    for name in (data, copy):
        (budget,) = administration.budgets_of(store, name)
        assert (budget.epsilon, budget.delta, budget.spent[0], budget.left[0]) == (2.0, 1e-4, 3.0, 0.0)
        assert budget.left[1] == pytest.approx(9.9e-5)
    refused(store, asking(copy, [0.1]))
    declare(store, data, None)
    assert administration.budgets_of(store, copy) == []
    store.create(asking(copy, [100.0, math.inf]))


def test_a_budget_declared_for_a_part_goes_on_for_the_whole(data: str, home: Path, store: Store) -> None:
    """In place of that for the whole: rows that the part does not have keep one."""
    declare(store, data, 4.0)
    declare(store, taken_in(home / "part.csv", ROWS[:100]), 2.0)
    rest = taken_in(home / "rest.csv", ROWS[200:])
    assert [budget.epsilon for budget in administration.budgets_of(store, rest)] == [2.0]


def test_data_that_join_rows_of_two_budgets_keep_both(data: str, home: Path, store: Store) -> None:
    others = [f"1{row}" for row in ROWS]
    other = taken_in(home / "others.csv", others)
    declare(store, data, 2.0)
    declare(store, other, 1.0)
    joined = taken_in(home / "joined.csv", [*ROWS, *others])
    assert [budget.epsilon for budget in administration.budgets_of(store, joined)] == [2.0, 1.0]
    refused(store, asking(joined, [1.5]))
    store.create(asking(joined, [0.75]))
    assert [spent(store, name)[0] for name in (data, other)] == [0.75, 0.75]
    refused(store, asking(other, [0.5]))
    store.create(asking(data, [1.25]))


def test_a_folder_put_there_by_hand_is_known_by_its_name(home: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_DATA", str(home / "files"))
    put(home / "files" / "mine" / "mine.csv", "\n".join(["x,label", *(f"{n},{'ab'[n % 2]}" for n in range(200))]))
    declare(store, "own:mine", 1.0)
    store.create(asking("own:mine", [0.75]))
    assert refused(store, asking("own:mine", [0.5])).fix == {"privacy.epsilons": (0.25,)}


# Who declares, and what


def test_only_the_owner_sees_and_sets_a_budget_on_a_shared_server(home: Path, store: Store) -> None:
    hers = taken_in(home / "a" / "visits.csv", owner="a" * 64)
    his = taken_in(home / "b" / "visits.csv", owner="b" * 64)
    she, he = (store.as_visitor(Visitor(letter * 64, Limits())) for letter in "ab")
    declare(she, hers, 1.0)
    for act, *given in ((administration.budgets_of,), (declare, 9.0), (declare, None)):
        assert refusal_of(act, he, hers, *given).field == "data"
    assert [budget.epsilon for budget in administration.budgets_of(she, hers)] == [1.0]
    assert administration.budgets_of(he, his) == []
    he.create(asking(his, [8.0]))
    refused(she, asking(hers, [8.0]))


@pytest.mark.parametrize(("epsilon", "delta", "field"), [
    (math.inf, None, "epsilon"), (math.nan, None, "epsilon"), (-1, None, "epsilon"), (1, 0.1, "delta"), (1, 0.0, "delta")
])
def test_what_promises_nothing_is_no_budget(epsilon, delta, field, data, store):
    assert refusal_of(declare, store, data, epsilon, delta).field == field
    assert administration.budgets_of(store, data) == []


def test_delta_follows_from_the_public_number_of_rows(data: str, store: Store) -> None:
    declare(store, data, 1.0)
    (budget,) = administration.budgets_of(store, data)
    assert budget.delta == 1e-3


@pytest.mark.parametrize("name", ["digits", "own:nothing", "own:../x"])
def test_data_that_are_not_here_have_no_budget(name: str, data: str, store: Store) -> None:
    refusal_of(declare, store, name, 1.0)


def test_the_account_depends_on_no_private_row(home: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other private rows, same public ones: spent, left and refusals are the same."""
    monkeypatch.delenv("DPCL_DATA", raising=False)
    from dpcl_core.data import catalog, outline

    public = set(outline.outline(catalog.card(taken_in(home / "visits.csv"))).test.rows.tolist())
    said = []
    for number in range(2):
        rows = [row if place in public or not number else f"7{row}" for place, row in enumerate(ROWS)]
        other = taken_in(home / str(number) / "visits.csv", rows)
        declare(store, other, 1.0 + number)
        store.create(asking(other, [0.25]))
        said.append(str(refused(store, asking(other, [8.0]))).replace(other, "own:it"))
    assert len(store.rows(tables.budgets.select())) == 1
    assert "epsilon 0.75, delta 0.000999" in said[0]
    assert "epsilon 1.5, delta 0.000998" in said[1]


# Every door: the command that declares a budget, and all that would release something.


def sets(*said: str) -> tuple[str, ...]:
    """As options of a command."""
    return tuple(word for one in said for word in ("--set", one))


RUN = sets("data.dataset=own:visits", "labels=prior", "scenario.tasks=2", "privacy.delta=1e-6")
ONE = (*RUN, *sets("privacy.epsilons=[1.0]", "seeds=[0]"))
FEDERATED = (*ONE, *sets("method=label-means", "scenario={kind = 'federated'}", "labels=prior-const"))


def test_a_budget_is_declared_shown_used_and_removed(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "data", "budget", data).startswith("No budget is declared for own:visits")
    assert printed(capsys, "data", "budget", "visits", "--epsilon", "4").startswith(
        "Budget of own:visits for all runs on these rows: epsilon 4, delta 0.001, for one row left out. "
        "Spent: epsilon 0, delta 0. Left: epsilon 4, delta 0.001."
    )
    assert called("run", *RUN, *sets("privacy.epsilons=[1.0]", "seeds=[0, 1]"), capsys=capsys)[0] == 0
    (document,) = document_of(capsys, "data", "budget", data)
    assert 1.3 < document["spent"][0] < 1.6, "two models by their ledgers together: less than 2"
    assert (document["spent"][1], document["left"][0]) == (1e-6, pytest.approx(4 - document["spent"][0], abs=0.01))
    err = complaint(capsys, "run", *RUN, "--set", "privacy.epsilons=[1.0, 8.0]")
    assert err.startswith("privacy.epsilons = 1, 8: for all 10 models that is up to epsilon 45, delta 1e-05, and epsilon 2.")
    assert err.endswith("epsilon 4, delta 0.001; add --set 'privacy.epsilons=[1.0]' --set 'seeds=[0]'\n")
    assert called("data", "budget", data, "--none", capsys=capsys)[1].startswith("No budget is declared")


@pytest.mark.parametrize(
    "wrong", [("--delta", "1e-5"), ("--epsilon", "inf"), ("--epsilon", "4", "--none"), ("--epsilon", "4", "--delta", "0.5")]
)
def test_what_declares_nothing_is_one_sentence(wrong, data, capsys):
    complaint(capsys, "data", "budget", data, *wrong)
    assert called("data", "budget", data, capsys=capsys)[1].startswith("No budget is declared")


@pytest.mark.parametrize(("door", "field"), [
    (("run", *ONE), "privacy.epsilons"),
    (("sweep", *ONE, "--over", "seeds=[[0], [1]]"), "privacy.epsilons"),
    (("tune", *ONE, "--set", "method=peft-ensemble", "--on", "private"), "data.dataset"),
    (("audit", *ONE, "--set", "method=pecl", "--attack", "planted-codes"), "data.dataset"),
    (("flower", "split", *FEDERATED, "--to", "parts"), "data.dataset"),
], ids=lambda door: door[0] if isinstance(door, tuple) else "")
def test_every_command_that_releases_something_is_refused(door, field, data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert called("data", "budget", data, "--epsilon", "0.5", capsys=capsys)[0] == 0
    err = complaint(capsys, *door)
    assert err.startswith(f"{field} = ")
    assert "epsilon 0.5, delta 0.001 is left of the budget of all runs on these rows" in err
    assert (Store().unfinished(), Store().list_runs()) == ([], [])
    assert not (tmp_path / "parts").exists()


def test_python_refuses_it_too_and_says_what_fits(data: str, store: Store) -> None:
    declare(store, data, 0.5)
    raw = {"data": {"dataset": data}, "labels": "prior", "scenario": {"tasks": 2}, "privacy": {"delta": 1e-6}}
    for act, *given in ((dpcl_core.run, raw), (dpcl_core.sweep, raw, {"labels": ["prior", "prior-const"]})):
        refused = refusal_of(act, *given, epsilons=[1.0], seeds=[0])
        assert (refused.field, refused.fix) == ("privacy.epsilons", {"privacy.epsilons": (0.5,)})
    assert Store().list_runs() == []
