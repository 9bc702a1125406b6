"""Several rows of one person: the group bound against closed forms, and a run whose unit is the person."""

import json
import math
from pathlib import Path

import dp_accounting as dp
import numpy as np
import pyarrow as pa
import pytest

from dpcl_core import checks, engine
from dpcl_core.errors import BadInput
from dpcl_core.events import CellFinished, Event, Planned, TaskLearned, of_kind
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.features import cosine
from dpcl_core.privacy import budgets, card, card_document, gaussian
from dpcl_core.privacy.accounting import LabelListDpEvent, Pld
from dpcl_core.scenarios.stream import Examples
from dpcl_core.spec import SMALLEST_DELTA, PrivacySpec, RunSpec
from dpcl_core.tuning import search, settings
from tests.data.making import write


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("sigma", [2.0, 10.0])
def test_of_a_gaussian_the_bound_is_above_the_exact_epsilon_of_the_group(sigma: float, size: int) -> None:
    """m rows move a sum by m: exactly a Gaussian of noise sigma / m. The chain of neighbours can only be worse."""
    found = budgets.epsilon_of(Pld(), [dp.GaussianDpEvent(sigma)], 1e-5, "add-remove", size)
    exact = Pld().epsilon([dp.GaussianDpEvent(sigma / size)], 1e-5, "add-remove")
    assert found == exact if size == 1 else exact < found < 2 * exact


def test_of_a_decision_the_bound_is_exact() -> None:
    """A list's worst case is (e, d)-DP and no better: m rows have m e at d (1 + exp(e) + ...), so at less delta no bound."""
    event, size = LabelListDpEvent(0.1, 1e-6), 3
    grown = 1e-6 * sum(math.exp(0.1 * place) for place in range(size))
    assert budgets.epsilon_of(Pld(), [event], 1.001 * grown, "add-remove", size) == pytest.approx(0.3, rel=1e-4)
    assert math.isinf(budgets.epsilon_of(Pld(), [event], 0.99 * grown, "add-remove", size))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_noise_for_a_rows_budget_keeps_a_person_within_the_asked_one(size: int, adjacency: str) -> None:
    """Whatever the epsilon of a row: the accountant's grid is fitted to it."""
    privacy = PrivacySpec(epsilons=(0.005, 0.1, 1.0, 4.0, math.inf), delta=1e-6, adjacency=adjacency)  # type: ignore[arg-type]
    of_row = budgets.for_a_row(privacy, size)
    assert size > 1 or of_row == privacy, "not a digit changes where everyone has one row"
    assert of_row.epsilons[-1] == math.inf
    for asked, epsilon in zip(privacy.epsilons[:-1], of_row.epsilons, strict=False):
        sigma = gaussian.sigma(epsilon, of_row.delta, gaussian.SENSITIVITY[privacy.adjacency])
        assert budgets.epsilon_of(Pld(), [dp.GaussianDpEvent(sigma)], privacy.delta, privacy.adjacency, size) <= asked
        less = dp.GaussianDpEvent(0.5 * sigma)
        assert budgets.epsilon_of(Pld(), [less], privacy.delta, privacy.adjacency, size) > asked


def hospital(folder: Path, per_person: int, n_people: int = 300) -> None:
    """Visits of patients: half of them have four, the others one."""
    draw = np.random.default_rng(0)
    lines = ["patient,pressure,outcome"]
    for person in range(n_people):
        for _ in range(1 if person % 2 else 4):
            is_high = draw.integers(2)
            lines.append(f"p{person},{100 + 40 * is_high + draw.integers(10)},{'ab'[is_high]}")
    folder.mkdir(parents=True)
    (folder / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    schema = f'per_person = {per_person}\n[columns]\ntarget = "outcome"\nperson = "patient"\n'
    (folder / "schema.toml").write_text(schema, encoding="utf-8")


def spec(method: str = "cosine", **more: object) -> RunSpec:
    raw = {
        "method": method, "data": {"dataset": "own:mine"}, "labels": "prior-const", "seeds": [0],
        "scenario": {"kind": "class-incremental", "tasks": 2}, "privacy": {"epsilons": [1.0, 4.0], "delta": 1e-5}, **more,
    }  # fmt: skip
    return checks.parse(raw)


@pytest.mark.parametrize("per_person", [1, 3])
@pytest.mark.parametrize("labels", ["prior-const", "dp-learned"])
def test_the_unit_of_a_run_with_a_column_of_people_is_the_person(per_person: int, labels: str, data_dir: Path) -> None:
    hospital(data_dir / "mine", per_person)
    events = list(engine.run(spec(labels=labels)))
    finished = [event for event in events if isinstance(event, CellFinished)]
    assert [event.cell.epsilon for event in finished] == [1.0, 4.0]
    assert {event.cell.epsilon for event in events if isinstance(event, TaskLearned)} == {1.0, 4.0}
    for event in finished:
        assert event.guarantee.unit.startswith("one person")
        assert 0.3 * event.cell.epsilon < event.guarantee.epsilon <= event.cell.epsilon * (1 + 1e-4)
        assert event.guarantee.delta == 1e-5
        assert any(f"at most {per_person} row" in line for line in event.guarantee.assumptions)
        assert event.guarantee.composition.startswith("group bound" if per_person > 1 else "parallel")
        assert event.ledger.rows_per_unit == per_person
        # The best attack on one row says nothing of a person with three, and no person is in several tasks a second time.
        assert (event.guarantee.advantage is None) == (event.guarantee.hits is None) == (per_person > 1)
        assert not any(name.startswith("the same ") for name in event.guarantee.parts)
    document = json.dumps(card_document.document("0" * 12, "cosine", "own:mine", finished, next(of_kind(events, Planned))))
    assert {one.verdict for one in card.verify(document.encode())} == {"matches"}
    changed = document.replace('"rows_per_unit": 3', '"rows_per_unit": 2')
    if per_person > 1:
        assert {one.verdict for one in card.verify(changed.encode())} == {"differs"}


def sentences(folder: Path, gone: int | None = None) -> None:
    """Sentences of 1 to 12 words of two sources, one of which may be gone from the training part."""
    for split in ("train", "test"):
        rows = [row for row in range(60) if split == "test" or row != gone]
        tokens = [[f"w{row} {place}" for place in range(1 + row % 12)] for row in rows]
        tags = [["B-PER" if place == 0 else "O" for place in range(len(one))] for one in tokens]
        words, kinds = (pa.array(one, pa.list_(pa.string())) for one in (tokens, tags))
        write(folder, split, tokens=words, tags=kinds, domain=["ab"[row % 2] for row in rows])


def test_a_sentence_that_no_client_holds_is_the_unit_and_moves_a_sum_by_its_words_that_count(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = spec(
        data={"dataset": "own:mine", "backbone": "hashed-text"}, scenario={"kind": "source-incremental", "order": ["a", "b"]}
    )
    taken: list[np.ndarray] = []  # the rows of each task
    honest = cosine.noisy_class_sums

    def watched(rows: np.ndarray, *arguments: object, **more: object) -> object:
        taken.append(np.asarray(rows))
        return honest(rows, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(cosine, "noisy_class_sums", watched)
    found = []
    for gone in (None, 35):  # of twelve words
        sentences(data_dir / "mine", gone)
        taken.clear()
        events = list(engine.run(asked))
        found.append(sum(map(len, taken)))
    n_whole = sum(min(1 + row % 12, 4) for row in range(60))
    assert found == [n_whole, n_whole - 4]
    finished = list(of_kind(events, CellFinished))
    for event in finished:
        assert event.guarantee.unit.startswith("one training sentence")
        assert event.guarantee.composition.startswith("group bound")
        assert 0.3 * event.cell.epsilon < event.guarantee.epsilon <= event.cell.epsilon * (1 + 1e-4)
        assert any("each sentence at most 4 rows" in line for line in event.guarantee.assumptions)
        assert event.ledger.rows_per_unit == checks.WORDS == 4
    document = json.dumps(card_document.document("0" * 12, "cosine", "own:mine", finished, next(of_kind(events, Planned))))
    assert {one.verdict for one in card.verify(document.encode())} == {"matches"}


@pytest.mark.parametrize("gone", [0, 7, 30])
def test_which_words_of_a_sentence_count_follows_from_that_sentence(gone: int) -> None:
    of = np.repeat(np.arange(40), np.random.default_rng(3).integers(1, 15, 40))
    keys = of.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # of a sentence, as readers give them
    words = Examples(np.arange(len(of))[:, None], of, sentences=of, keys=keys)
    counted = words.neighbouring_words(4)
    sizes = np.bincount(of[counted], minlength=40)
    np.testing.assert_array_equal(sizes, np.minimum(np.bincount(of), 4))
    assert all(np.ptp(counted[of[counted] == one]) == sizes[one] - 1 for one in range(40)), "they are neighbours"
    fewer = words.take(np.flatnonzero(of != gone))
    np.testing.assert_array_equal(fewer.inputs[fewer.neighbouring_words(4), 0], counted[of[counted] != gone])
    starts = [counted[of[counted] == one][0] - np.flatnonzero(of == one)[0] for one in range(40)]
    assert len(set(starts)) > 3, "not always the first words"


@pytest.mark.parametrize(("method", "params"), [("cosine", {}), ("peft-ensemble", {"epochs": 1, "sample_rate": 0.5})])
def test_a_budget_without_a_bound_is_refused_by_the_name_it_was_asked_by(
    method: str, params: dict[str, object], data_dir: Path
) -> None:
    """With one release a task it is known before the data are read; else it shows after the task that is too much."""
    hospital(data_dir / "mine", 3)
    run = spec(
        method, params=params, labels="dp-learned", scenario={"kind": "permuted", "tasks": 2},
        privacy={"epsilons": [4.0], "delta": 1e-4},
    )  # fmt: skip
    events: list[Event] = []
    with pytest.raises(BadInput, match=r"^privacy.epsilons = 4.0: .* bound"):
        events.extend(engine.run(run))
    assert bool(events) == (method != "cosine")


def test_a_tuning_tries_settings_with_the_budget_of_a_row(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hospital(data_dir / "mine", 3)
    base = spec("peft-ensemble", privacy={"epsilons": [3.0], "delta": 1e-5}, params={"epochs": 1})
    seen: list[RunSpec] = []
    monkeypatch.setattr(search, "_accuracy", lambda trial, *_: seen.append(trial) or iter(()))
    steps = search.prepared(settings.TuneSpec(base=base, on="private", n_trials=1), "cpu")
    try:
        while True:
            next(steps)
    except StopIteration as ended:
        list(ended.value.train(base.params))
    assert [trial.privacy for trial in seen] == [budgets.for_a_row(base.privacy, 3)]


def test_methods_that_cannot_protect_a_person_say_which_can(data_dir: Path) -> None:
    hospital(data_dir / "mine", 1)
    for method, changes in (("l2dp-ml", {}), ("dp-fedavg", {"scenario": {"kind": "federated", "clients": 5, "tasks": 2}})):
        with pytest.raises(BadInput, match="column of people: take cosine, peft-ensemble") as refused:
            checks.check_run(spec(method, **changes))
        assert methods.card(str(refused.value.fix["method"])).guarantee == "proved"


def test_the_way_out_leaves_the_other_methods_settings_behind(data_dir: Path) -> None:
    """The stay-behind of one method would be unknown to another, and nothing would be left to press."""
    hospital(data_dir / "mine", 1)
    raw = json.loads(spec("l2dp-ml", params={"batch_size": 20, "head": "shared"}).to_json())
    mended = checks.parse(checks.changed(raw, checks.repair(raw)))
    checks.check_run(mended)
    assert mended.method == "cosine"


@pytest.mark.parametrize(("size", "epsilon"), [(3, 4.0), (10, 1.0)])
def test_a_person_stays_within_epsilon_at_the_smallest_delta_of_a_row(size: int, epsilon: float) -> None:
    delta = budgets.smallest_delta(epsilon, size)
    of_row = budgets.for_a_row(PrivacySpec(epsilons=(epsilon,), delta=delta), size)
    assert of_row.delta >= SMALLEST_DELTA
    release = dp.GaussianDpEvent(gaussian.sigma(of_row.epsilons[0], of_row.delta))
    assert budgets.epsilon_of(Pld(), [release], delta, "add-remove", size) <= epsilon * (1 + 1e-5)


def test_a_delta_of_a_row_that_no_accountant_resolves_is_no_bound() -> None:
    assert budgets.epsilon_of(Pld(), [dp.GaussianDpEvent(1.0)], 1e-8, "add-remove", 2) < math.inf
    assert budgets.epsilon_of(Pld(), [dp.GaussianDpEvent(1.0)], 1e-12, "add-remove", 2) == math.inf


def test_a_delta_of_which_a_row_gets_too_little_is_refused(data_dir: Path) -> None:
    hospital(data_dir / "mine", 3)
    privacy = {"epsilons": [4.0, math.inf], "delta": 1e-12}
    said = r"privacy.delta = 1e-12: must be at least 1.92e-11, 1e-12 of each of 3 rows at epsilon 4"
    with pytest.raises(BadInput, match=said) as refused:
        checks.check_run(spec(privacy=privacy))
    checks.check_run(spec(privacy={**privacy, "delta": refused.value.fix["privacy.delta"]}))
    with pytest.raises(BadInput, match=r"privacy.epsilons = 60.0: must be smaller where a person or sentence has 3 rows"):
        checks.check_run(spec(privacy={"epsilons": [60.0], "delta": 1e-5}))
