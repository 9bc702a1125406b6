"""Tables of what runs said, and what trackers of experiments are given of them."""

import json
import math
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcl_core as dpcl
from dpcl_core import metrics
from dpcl_core.errors import DataMissing
from dpcl_core.events import CellFinished, Event, Leaks, Progress, Retained, Started, TaskLearned, TokensScored
from dpcl_core.methods import catalog
from dpcl_core.results import Result
from dpcl_core.runs import frames
from dpcl_core.runs.run import fraction_done, n_trained_together, seconds_left, stage, steady
from dpcl_core.spec import Cell
from tests.support import replay
from tests.support.asserting import refuses
from tests.support.signatures import ENTRIES, PROTOTYPES, SCORES, TOLD, with_lists
from tests.support.texts import SCORED, with_texts

SAID = replay.recorded(replay.a_spec(epsilons=(1.0, math.inf), seeds=(0, 7)), n_tasks=3)
GUARANTEE = next(event.guarantee for event in SAID if isinstance(event, CellFinished))


def test_accuracy_has_one_row_for_each_task_seen_after_each_task():
    table = frames.accuracy(SAID)
    assert list(table.columns) == ["epsilon", "seed", "after_task", "on_task", "accuracy", "pooled"]
    expected = [
        (event.cell.epsilon, event.cell.seed, event.task, on_task, accuracy, event.pooled)
        for event in SAID if isinstance(event, TaskLearned) for on_task, accuracy in enumerate(event.accuracy)
    ]  # fmt: skip
    assert sorted(table.itertuples(index=False, name=None)) == sorted(expected)


def test_metrics_are_those_of_the_finished_cells_and_undefined_ones_are_missing():
    table = frames.metrics(SAID)
    assert (list(table.columns), len(table)) == (["epsilon", "seed", "metric", "value"], 4 * 6)
    assert table[table["metric"] == "FWT"]["value"].isna().all()
    one = next(event for event in SAID if isinstance(event, CellFinished) and event.cell == Cell(math.inf, 7))
    found = table[(table["epsilon"] == math.inf) & (table["seed"] == 7)].set_index("metric")["value"]
    assert [found[name] for name in ("AA", "AF")] == [one.metrics[name] for name in ("AA", "AF")]


def test_spent_is_what_the_ledger_added_up_to_after_each_task():
    table = frames.spent(SAID)
    assert (list(table.columns), len(table)) == (["epsilon", "seed", "after_task", "accounted_epsilon"], 4 * 3)
    assert (table["accounted_epsilon"] == table["epsilon"]).all()


def test_the_guarantee_of_a_budget_is_the_worst_of_its_seeds():
    finished = [event for event in SAID if isinstance(event, CellFinished)]
    worse = [replace(e, guarantee=replace(e.guarantee, epsilon=1.5)) if e.cell == Cell(1.0, 0) else e for e in finished]
    assert {asked: given.epsilon for asked, given in frames.guarantees(worse).items()} == {1.0: 1.5, math.inf: math.inf}
    assert frames.guarantees(worse[::-1]) == frames.guarantees(worse)


OF_TEXTS = with_texts(SAID)
MATCHED = with_lists(replay.recorded(replay.a_spec(epsilons=(1.0,), seeds=(0, 7)), n_tasks=2))


def test_every_token_said_has_one_row():
    table = frames.tokens(OF_TEXTS)
    scored = [event for event in OF_TEXTS if isinstance(event, TokensScored)]
    assert len(table) == sum(len(text.tokens) for event in scored for text in event.texts)
    one = table.query("epsilon == 1 and seed == 7 and task == 2 and model == 'base' and text == 1").sort_values("place")
    columns = {"token": "tokens", "kind": "kinds", **{name: name for name in ("probability", "commonness", "is_stop")}}
    assert {name: tuple(one[name]) for name in columns} == {name: getattr(SCORED, of) for name, of in columns.items()}
    assert set(one["label"]) == {SCORED.label}


def test_what_is_retained_and_leaks_has_one_row_a_number():
    kept, leaks = frames.retained(OF_TEXTS), frames.leaks(OF_TEXTS)
    assert len(kept) == sum(len(event.ordinary) for event in OF_TEXTS if isinstance(event, Retained))
    row = kept.query("epsilon == 1 and seed == 0 and after_task == 2").sort_values("of_task")
    assert (row["ordinary"].tolist(), row["private"].isna().tolist()) == ([0.5, 0.6, 0.7], [True, False, False])
    said = [event for event in OF_TEXTS if isinstance(event, Leaks)]
    assert len(leaks) == 3 * len(said)
    before = leaks.query("epsilon == 1 and seed == 0 and after_task == -1").sort_values("planted")
    assert (before["planted"].tolist(), before["exposure"].tolist()) == ([0, 1, 16], [1.4, 1.5, 1.8])
    assert set(before["confidence"]) == {0.95}


OF_RUNS = (frames.accuracy, frames.metrics, frames.spent, frames.tokens, frames.retained, frames.leaks)
OF_LISTS = (frames.entries, frames.prototypes, frames.agreement, frames.anchors, frames.statistics)


@pytest.mark.parametrize(("table", "said"), [*((one, OF_TEXTS) for one in OF_RUNS), *((one, MATCHED) for one in OF_LISTS)])
def test_an_empty_table_has_the_columns_and_types_of_a_full_one(table, said):
    assert table([]).dtypes.to_dict() == table(said).dtypes.to_dict()
    assert (len(table([])), frames.guarantees([])) == (0, {})


def test_every_entry_has_one_row() -> None:
    table = frames.entries(MATCHED)
    assert len(table) == 2 * 2 * len(ENTRIES.client)
    one = table.query("seed == 7 and task == 1")
    for column in ("client", "weight", "group", "margin", "regret", "mode"):
        assert tuple(one[column]) == getattr(ENTRIES, column)
    assert list(zip(one["signature_x"], one["signature_y"], strict=True)) == list(ENTRIES.signature)
    assert (list(one["name"]), list(one["is_right"])) == (["World", "Sports", "World", "World"], [True, True, True, False])


def test_every_group_matcher_anchor_count_and_statistic_has_one_row() -> None:
    groups = frames.prototypes([TOLD])
    assert (list(groups["name"]), list(groups["signature_xy"])) == (list(PROTOTYPES.name), [0.01, 0.0])
    agreement = frames.agreement([TOLD])
    assert agreement[agreement["noise"].isna()].set_index("matcher")["agreement"].to_dict() == dict(TOLD.agreement)
    assert agreement.query("matcher == 'Hungarian'")[["noise", "agreement"]].to_numpy().tolist() == [[0.0, 1.0], [0.1, 0.2]]
    assert set(agreement.loc[agreement["is_own"], "matcher"]) == {TOLD.matcher}
    anchors = frames.anchors([TOLD])
    assert tuple(anchors["m"]) == SCORES.m
    assert set(agreement["n_entries"]) == set(anchors["n_entries"]) == {len(ENTRIES.mode)}
    assert set(frames.agreement([replace(TOLD, n_compared=3)])["n_entries"]) == {3}
    for column in ("mean_rate", "least_rate", "least_gap", "needed", "agreement"):
        assert tuple(anchors[column]) == getattr(SCORES, column)
    assert frames.statistics([TOLD])[["statistic", "signal", "noise"]].to_numpy().tolist() == [
        ["mean", 0.4, 0.15], ["second moment", 0.8, 40.0]
    ]  # fmt: skip


def test_what_was_not_evaluated_has_no_row():
    events = [
        TaskLearned(Cell(1.0, 0), 0, (None,), None, 0.0),
        TaskLearned(Cell(1.0, 0), 1, (None, 0.5), 0.5, 1.0),
        CellFinished(Cell(1.0, 0), {"AA": 0.5, "AF": None}, GUARANTEE, 1.0),
    ]
    table = frames.accuracy(events)
    assert table[["after_task", "on_task", "accuracy", "pooled"]].values.tolist() == [[1, 1, 0.5, 0.5]]
    assert frames.metrics(events)["value"].isna().tolist() == [False, True]
    assert frames.accuracy(events[:1]).dtypes.to_dict() == table.dtypes.to_dict()
    assert frames.spent(events)["after_task"].tolist() == [0, 1], "what was spent does not wait for a test"


def test_a_run_can_be_read_under_another_rule():
    own, other = ((None,), (0.8, 0.6)), ((None,), (0.5, 0.9))
    events = [
        TaskLearned(Cell(1.0, 3), 0, own[0], None, 0.0),  # no model yet, hence no rules either
        TaskLearned(Cell(1.0, 3), 1, own[1], 0.7, 1.0, {"argmax": own[1], "median": other[1]}),
        CellFinished(Cell(1.0, 3), metrics.summary(own), GUARANTEE, 1.0),
    ]
    assert (frames.rules(events), frames.rules(SAID)) == (("argmax", "median"), ())
    under = frames.accuracy(events, "median")
    told = [of["accuracy"].tolist() for of in (frames.accuracy(events), frames.accuracy(events, "argmax"), under)]
    assert told == [[0.8, 0.6], [0.8, 0.6], [0.5, 0.9]]
    assert under["pooled"].isna().all(), "counted for the run's own rule only"
    found = frames.metrics(events, "median").set_index("metric")["value"]
    assert found["AA"] == found["Last"] == pytest.approx(0.7)
    assert frames.metrics(events, "argmax").equals(frames.metrics(events))
    with pytest.raises(KeyError):
        frames.accuracy(events, "loudest")


def test_of_claims_without_a_bound_the_largest_is_shown() -> None:
    said = replay.claimed(replay.recorded(replay.a_spec(epsilons=(0.5,), seeds=(0, 1, 2))))

    finished = [
        replace(event, guarantee=replace(of := event.guarantee, claim=replace(of.claim, epsilon=0.5 + event.cell.seed % 2)))
        for event in said if isinstance(event, CellFinished)
    ]  # fmt: skip
    for order in (finished, finished[::-1]):
        assert frames.guarantees(order)[0.5].claim.epsilon == 1.5


# How far and how long: never backwards, never below nothing.


PACED = replay.a_spec(epsilons=(1.0, 8.0), seeds=(0, 1))  # four cells
STARTED = Started(2, ("a", "b"), "Digits", 10, 10)


def training(done: int, total: int) -> Progress:
    return Progress("training", done, total, 0, "")


def learned_by(n: int) -> list[Event]:
    return [TaskLearned(Cell(1.0, 0), 0, (0.5,), 0.5, 1.0)] * n


def test_the_share_done_counts_tasks_learned_by_all_cells_and_what_is_done_of_the_next():
    assert (fraction_done(PACED, []), fraction_done(PACED, [Progress("backbone", 1, 1, None, "")])) == (0, 0)
    assert fraction_done(PACED, [STARTED, training(1, 4)]) == pytest.approx(1 / 8)
    assert fraction_done(PACED, [STARTED, training(4, 4), *learned_by(4)]) == pytest.approx(4 / 8)
    assert fraction_done(PACED, [STARTED, training(4, 4), *learned_by(4), training(1, 2)]) == pytest.approx(6 / 8)
    assert fraction_done(PACED, replay.recorded(PACED)) == 1


def test_a_learner_of_one_seed_counts_for_its_own_cells_alone(monkeypatch):
    together = replace(catalog.CARDS["cosine"], cells_per_learner="epsilons")
    monkeypatch.setattr(catalog, "CARDS", {**catalog.CARDS, "cosine": together})
    assert fraction_done(PACED, [STARTED, training(1, 2)]) == pytest.approx(1 / 8)
    assert fraction_done(PACED, [STARTED, training(2, 2), *learned_by(2), training(1, 2)]) == pytest.approx(3 / 8)


later = [event for event in replay.recorded(PACED) if not isinstance(event, Started)]
said_events = st.one_of(st.builds(training, st.integers(0, 9), st.integers(0, 7)), st.sampled_from(later))


@given(st.lists(said_events, max_size=30))
def test_the_share_done_never_goes_back_and_stays_between_nothing_and_all(said):
    shares = [fraction_done(PACED, [STARTED, *said[:n]]) for n in range(len(said) + 1)]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)


@given(st.floats(0, 1), st.floats(0, 1e6), st.none() | st.floats(0, 1e6))
def test_the_time_left_is_a_range_and_never_negative(fraction, elapsed, estimate):
    left = seconds_left(fraction, elapsed, estimate)
    if left is None:
        assert estimate is None
        assert fraction < 0.05
    else:
        assert 0 <= left[0] <= left[1]


def test_the_time_left_holds_the_plain_guesses_and_narrows_to_nothing():
    low, high = seconds_left(0.25, 10)
    assert low < 30 < high
    low, high = seconds_left(0.25, 10, estimate=100)
    assert low < 30
    assert high > 90
    assert (seconds_left(1, 10), seconds_left(0, 10)) == ((0, 0), None)
    assert seconds_left(0, 10, estimate=4)[0] == 0


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1, 1e6), st.floats(1, 3), st.floats(0, 60))
def test_the_shown_time_never_jumps_by_more_than_half(one, other, low, spread, since):
    before = (low, spread * low)
    now = steady((min(one, other), max(one, other)), before, since)
    assert now[0] <= now[1]
    for shown, was in zip(now, before, strict=True):
        expected = max(was - since, 1)
        assert 0.5 * expected <= shown * (1 + 1e-12)
        assert shown <= 1.5 * max(expected, before[0] - since, 1) * (1 + 1e-12)


def test_it_reaches_the_fresh_guess_where_that_is_near():
    assert steady((8.0, 12.0), (10.0, 14.0), 2.0) == (8.0, 12.0)
    assert steady((100.0, 200.0), (10.0, 14.0), 2.0) == (12.0, 18.0)


def test_the_stage_before_the_first_task_is_the_newest_one():
    early = [Progress("data", 0, 1, None, "loading"), Progress("backbone", 3, 9, None, "computing")]
    assert (stage([]), stage(early), stage([*early, STARTED])) == (None, early[-1], None)


def test_models_trained_at_once_follow_from_the_methods_card(monkeypatch):
    for shares, n in (("all", 4), ("epsilons", 2), ("cell", 1)):
        shared = replace(catalog.CARDS["cosine"], cells_per_learner=shares)
        monkeypatch.setattr(catalog, "CARDS", {**catalog.CARDS, "cosine": shared})
        assert n_trained_together(PACED) == n


pytestmark = pytest.mark.usefixtures("home")
_FILES = ("privacy.txt", "privacy_card.json")


@pytest.fixture
def result() -> Result:
    return dpcl.run("digits-cosine", epsilons=[1.0, float("inf")], seeds=[0], here=True)


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, with a folder of the test's own as its server."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    return mlflow


@pytest.mark.parametrize("is_nested", [False, True])
def test_mlflow_gets_a_run_for_each_model(result: Result, is_nested: bool, mlflow: Any) -> None:
    with mlflow.start_run(run_name="around") if is_nested else nullcontext():
        result.log_to("mlflow")
    client, last = mlflow.MlflowClient(), result.n_tasks
    found = {one.data.params["epsilon"]: one for one in client.search_runs(["0"]) if one.info.run_name != "around"}
    assert sorted(found) == ["1.0", "inf"]
    private, exact = found["1.0"], found["inf"]
    assert ("mlflow.parentRunId" in private.data.tags) is is_nested
    history = client.get_metric_history(private.info.run_id, "accuracy/mean")
    assert [one.step for one in history] == list(range(1, last + 1))
    assert history[-1].value == pytest.approx(result.finals[1.0][0])
    assert private.data.metrics["epsilon"] == pytest.approx(result.guarantee(1.0).epsilon)
    assert len(private.data.metrics) == last + 2
    assert "epsilon" not in exact.data.metrics  # there is no bound
    written = {name: mlflow.artifacts.load_text(f"{private.info.artifact_uri}/{name}") for name in _FILES}
    assert json.loads(written["privacy_card.json"]) == result.card
    assert "accounted epsilon 1" in written["privacy.txt"]


def test_tensorboard_gets_a_folder_for_each_model(result: Result, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result.log_to("tensorboard", folder=str(tmp_path / "logs"))
    private, exact = (EventAccumulator(str(one)) for one in sorted((tmp_path / "logs").iterdir()))
    assert [Path(one.path).name.partition("-epsilon")[2] for one in (private, exact)] == ["-1-seed-0", "-inf-seed-0"]
    for one in (private, exact):
        one.Reload()
    means = private.Scalars("accuracy/mean")
    assert [one.step for one in means] == list(range(1, result.n_tasks + 1))
    assert means[-1].value == pytest.approx(result.finals[1.0][0])  # kept in single precision
    assert private.Scalars("epsilon")[-1].value == pytest.approx(result.guarantee(1.0).epsilon)
    assert "epsilon" not in exact.Tags()["scalars"]

    def text(of: EventAccumulator, name: str) -> str:
        (said,) = of.Tensors(f"{name}/text_summary")
        return str(said.tensor_proto.string_val[0].decode())

    assert "    method = cosine" in text(private, "settings")
    assert "No noise was added" in text(exact, "privacy")


@pytest.mark.parametrize("tracker", ["mlflow", "tensorboard"])
def test_a_missing_package_names_the_command(result: Result, tracker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    refuses(f"tracker = {tracker}: is not installed: pip install .*{tracker}", result.log_to, tracker, error=DataMissing)
    refuses("did you mean mlflow", result.log_to, "mlflo")


def test_the_card_of_a_result_is_that_of_its_export_and_goes_to_other_accountants(result: Result) -> None:
    from dp_accounting.pld import PLDAccountant

    event = result.card.to_dp_events(1.0)
    assert PLDAccountant().compose(event).get_epsilon(1e-5) == pytest.approx(result.guarantee(1.0).epsilon, rel=1e-3)
    assert PLDAccountant().compose(result.card.to_dp_events(float("inf"))).get_epsilon(1e-5) == float("inf")
    refuses(r"epsilon = 3.*1, inf", result.card.to_dp_events, 3.0)
