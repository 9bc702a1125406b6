"""The private classifier for scikit-learn: its interface, what it reads of rows, what it releases, and what that costs."""

import doctest
import json
import math
import pickle
import stat
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import check_estimator

import dpcl_core as dpcl
from dpcl_core import estimators
from dpcl_core.data import handed
from dpcl_core.estimators import DPCosineClassifier, DPHeadEnsemble
from dpcl_core.privacy import card
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.runs import spend
from tests.data.making import put
from tests.support.asserting import includes, raising, refusal_of, refuses
from tests.support.waiting import python

pytestmark = pytest.mark.usefixtures("home")
X, Y = load_digits(return_X_y=True)
DIGITS = list(range(10))

# The library's checks that fail, each with its reason.
EXPECTED = {"check_dtype_object": "an array of objects is refused by its type: whether one of them is no number is private"}
NOISY = {"check_classifiers_train": "a last layer trained on few rows at a small budget is not accurate"}
QUICK: dict[str, Any] = {"epochs": 10, "learning_rate": 0.1}


def of(*digits: int) -> np.ndarray:
    """Where the rows of these digits are."""
    return np.isin(Y, digits)


def exact(**settings: Any) -> DPCosineClassifier:
    """Without noise, so that what is released can be compared."""
    return DPCosineClassifier(epsilon=math.inf, **{"classes": DIGITS, **settings})


@pytest.mark.parametrize(("model", "expected"), [
    (DPCosineClassifier(epsilon=math.inf, labels="data", random_state=0), EXPECTED),
    (DPCosineClassifier(labels="data"), EXPECTED),
    (DPHeadEnsemble(epsilon=math.inf, labels="data", random_state=0, **QUICK), EXPECTED),
    (DPHeadEnsemble(labels="data", **QUICK), EXPECTED | NOISY),
], ids=lambda one: f"{type(one).__name__}, {one.epsilon}" if hasattr(one, "epsilon") else "")
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(model: Any, expected: dict[str, str]) -> None:
    found = check_estimator(model, expected_failed_checks=expected, on_skip=None, on_fail=None)
    statuses = {name: {one["status"] for one in found if one["check_name"] == name} for name in EXPECTED}
    assert statuses == {name: {"xfail"} for name in EXPECTED}
    assert not [(one["check_name"], one["exception"]) for one in found if one["status"] == "failed"]
    assert sum(one["status"] == "passed" for one in found) > 45


def test_the_sums_are_those_of_a_plain_loop() -> None:
    model = exact().fit(X, Y)
    plain = np.stack([unit_rows(X)[of(digit)].sum(axis=0) for digit in DIGITS])
    np.testing.assert_allclose(model.sums_, plain)
    nearest = (unit_rows(X) @ unit_rows(plain).T).argmax(axis=1)
    assert (model.predict(X) == nearest).all()
    assert (model.predict_proba(X).argmax(axis=1) == nearest).all()
    assert model.score(X, Y) > 0.85


def test_a_notebook_shows_the_promise_and_what_all_models_spent() -> None:
    shown = DPCosineClassifier(classes=DIGITS, data_id="<b>").fit(X, Y).privacy_._repr_html_()
    includes(shown, "Whatever is published is at most 2.72 times likelier", "&lt;b&gt;&#x27; together: epsilon 1")
    assert len(shown) < 60_000
    line = repr(DPCosineClassifier(classes=DIGITS).fit(X, Y).privacy_)
    assert line == "<Privacy: epsilon 1, delta 1e-05, for one training example; data 'default'>"


def test_a_useful_accuracy_at_a_small_budget() -> None:
    assert DPCosineClassifier(epsilon=1.0, classes=DIGITS).fit(X, Y).score(X, Y) > 0.75


def test_tasks_in_turn_are_one_learned_at_once() -> None:
    model = exact(classes=None)
    for first in (0, 5):
        task = of(*range(first, first + 5))
        model.partial_fit(X[task], Y[task], classes=range(first, first + 5))
    assert (model.sums_ == exact().fit(X, Y).sums_).all()
    assert model.classes_.tolist() == DIGITS
    assert "which task a label belongs to" in str(model.privacy_)
    model.partial_fit(X[:5], Y[:5])
    assert (len(model.privacy_.entries), len(model.set_params(classes=DIGITS).fit(X, Y).privacy_.entries)) == (3, 1)


def test_a_task_gets_noise_for_its_own_labels_alone() -> None:
    model = DPCosineClassifier(classes=["a", "b", "c"]).partial_fit(X[:9], ["a"] * 9, classes=["a", "b"])
    assert model.sums_[:2].all()
    assert not model.sums_[2].any()
    assert set(model.predict(X)) <= {"a", "b"}


def test_noise_is_fresh_unless_it_is_seeded() -> None:
    def sums(**settings: Any) -> np.ndarray:
        return DPCosineClassifier(classes=DIGITS, **settings).fit(X, Y).sums_

    assert (sums() != sums()).all()
    assert (sums(random_state=3) == sums(random_state=3)).all()
    assert (sums(random_state=3) != sums(random_state=4)).all()
    seeded = DPCosineClassifier(classes=DIGITS, random_state=3).fit(X, Y).partial_fit(X, Y)
    assert "voids this bound" in str(seeded.privacy_)
    assert math.isinf(dpcl.budget().epsilon(1e-5, "add-remove"))


@pytest.mark.parametrize(("adjacency", "sensitivity"), [("add-remove", 1), ("replace", 2)])
def test_the_noise_is_that_of_the_entry(adjacency: Any, sensitivity: int) -> None:
    """12,000 draws: their standard deviation is off by 5 % in less than one of a billion runs."""
    model = DPCosineClassifier(classes=range(200), adjacency=adjacency).fit(X, Y)
    (entry,) = model.privacy_.entries
    drawn = model.sums_[10:].std()
    assert drawn == pytest.approx(entry.event.noise_multiplier, rel=0.05)
    sigma = dpcl.account(epsilon=1.0, delta=1e-5).sigma  # in units of the sensitivity
    assert drawn == pytest.approx(sensitivity * sigma, rel=0.05)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_calls_add_up_unless_they_are_declared_to_hold_different_people(adjacency: Any) -> None:
    in_turn, apart = (
        DPCosineClassifier(classes=DIGITS, adjacency=adjacency, disjoint_people=is_apart) for is_apart in (False, True)
    )
    for _ in range(4):
        in_turn.partial_fit(X, Y)
        apart.partial_fit(X, Y)
    sigma = dpcl.account(epsilon=1.0, delta=1e-5, adjacency=adjacency).sigma
    of_four = dpcl.account(sigma=sigma / 2, delta=1e-5, adjacency=adjacency).epsilon
    assert in_turn.privacy_.epsilon == pytest.approx(of_four, rel=1e-4)
    assert apart.privacy_.epsilon == pytest.approx(1.0, rel=1e-4)
    assert "so whoever made them declares" in str(apart.privacy_)
    of_five = dpcl.account(sigma=sigma / math.sqrt(5), delta=1e-5, adjacency=adjacency).epsilon
    assert apart.privacy_.epsilon_of_all == pytest.approx(of_five, rel=1e-4)


ODD = [None, math.nan, "seven", 12, -1, math.inf, (), [1], {}, pd.NA, pd.NaT, object()]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_a_row_with_an_odd_label_is_left_out_silently(odd: object) -> None:
    plain = exact().fit(X, Y)
    labels: list[object] = [*Y.tolist(), odd]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = exact().fit(np.vstack([X, X[:1]]), labels)
    assert (model.sums_ == plain.sums_).all()
    assert model.classes_.tolist() == DIGITS


@pytest.mark.parametrize("kind", ["Int64", "category", "object", "Float64"])
def test_a_missing_label_of_a_series_is_left_out_silently(kind: str) -> None:
    series = pd.Series([*Y.tolist(), None], dtype="Float64").astype(kind if kind != "category" else "Int64").astype(kind)
    assert (exact().fit(np.vstack([X, X[:1]]), series).sums_ == exact().fit(X, Y).sums_).all()


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, None])
def test_a_row_with_a_number_that_is_none_is_left_out_silently(odd: float | None) -> None:
    plain, rows = exact().fit(X, Y), [*X.tolist(), [odd, *X[0, 1:].tolist()]]
    labels = [*Y, 0]
    frame = pd.DataFrame(rows, columns=[f"c{place}" for place in range(64)]).astype("Float64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for form in (rows, np.array(rows, float), frame):
            assert (exact().fit(form, labels).sums_ == plain.sums_).all()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_neighbours_differ_by_the_sensitivity_at_most(adjacency: str) -> None:
    changed = X.copy()
    changed[0] = 0 if adjacency == "add-remove" else np.where(X[0] > 0, 0, 9)
    change = exact().fit(changed, Y).sums_ - exact().fit(X, Y).sums_
    assert 0 < np.linalg.norm(change) <= (1 if adjacency == "add-remove" else 2)


def test_of_a_person_only_so_many_rows_count() -> None:
    people = np.repeat(np.arange(40), 5)
    rows, labels = X[:200], Y[:200]
    settings = {"rows_per_person": 2, "delta": 1e-5}
    model = exact(**settings).fit(rows, labels, groups=people)
    assert np.linalg.norm(model.sums_, axis=1).sum() <= 80
    for person in range(5):
        others = people != person
        without = exact(**settings).fit(np.where(others[:, None], rows, np.nan), labels, groups=people)
        gone = exact(**settings).fit(rows[others], labels[others], groups=people[others])
        assert (without.sums_ == gone.sums_).all()  # whoever stays has the same rows
        assert np.linalg.norm(without.sums_ - model.sums_) <= 2
    again = np.random.default_rng(0).permutation(200)
    assert (exact(**settings).fit(rows[again], labels[again], groups=people[again]).sums_ == model.sums_).all()


def test_the_row_of_nobody_is_left_out_silently() -> None:
    people: list[object] = [*range(200)]
    plain = exact().fit(X[:200], Y[:200], groups=people)
    for nobody in (None, math.nan, pd.NA, []):
        assert (exact().fit(X[:201], Y[:201], groups=[*people, nobody]).sums_ == plain.sums_).all()


def test_a_person_of_several_rows_stays_within_the_budget() -> None:
    people = np.arange(len(X)) // 4
    model = DPCosineClassifier(classes=DIGITS, rows_per_person=3, data_id="of people").fit(X, Y, groups=people)
    assert 0.9 < model.privacy_.epsilon <= 1.0
    assert 0.9 < model.privacy_.epsilon_of_all <= 1.0
    assert "one person, with all rows under their name that count" in str(model.privacy_)
    assert verdicts(model) == ["matches"]
    refuses("one row", model.card_.to_dp_events)
    DPCosineClassifier(classes=DIGITS, data_id="of people").fit(X, Y)
    assert math.isinf(model.privacy_.epsilon_of_all)  # rows and persons: nobody has a bound


def verdicts(model: DPCosineClassifier) -> list[str]:
    return [one.verdict for one in card.verify(json.dumps(model.card_).encode())]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("is_apart", [False, True])
def test_the_card_is_verified_and_its_events_give_the_same_epsilon(adjacency: Any, is_apart: bool, tmp_path: Path) -> None:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    model = DPCosineClassifier(classes=DIGITS, adjacency=adjacency, disjoint_people=is_apart)
    model.partial_fit(X, Y).set_params(epsilon=0.5).partial_fit(X, Y)
    relation = {"add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": NeighboringRelation.REPLACE_ONE}[adjacency]
    accountant = PLDAccountant(relation).compose(model.card_.to_dp_events())
    assert accountant.get_epsilon(1e-5) == pytest.approx(model.privacy_.epsilon, rel=1e-3)
    assert repr(model.card_).startswith("<Privacy card of cosine on own:default: epsilon ")
    model.card_.save(tmp_path / "card.json")
    assert card.exit_status(card.verify((tmp_path / "card.json").read_bytes())) == 0


@pytest.mark.parametrize("settings", [{"epsilon": math.inf}, {"labels": "data"}, {"random_state": 0}], ids=repr)
def test_a_card_without_a_bound_says_so(settings: dict[str, Any]) -> None:
    model = DPCosineClassifier(**{"classes": DIGITS, **settings}).fit(X, Y)
    assert verdicts(model) == ["matches"]
    said = str(model.privacy_)
    assert "Not DP." in said or "voids this bound" in said
    assert "no bound is known" in said


# What everything on one name of data has spent.


def n_releases(data_id: str | None = None) -> int:
    return sum(spend.account(data_id).releases.values()) + len(spend.account(data_id).streams)


def test_spend_survives_clones_refits_pickles_and_searches() -> None:
    model = DPCosineClassifier(classes=DIGITS, data_id="digits").fit(X, Y)
    clone(model).fit(X, Y)
    pickle.loads(pickle.dumps(model)).partial_fit(X, Y)
    model.fit(X[:500], Y[:500])
    assert n_releases("digits") == 4
    search = GridSearchCV(DPCosineClassifier(classes=DIGITS, data_id="digits"), {"epsilon": [0.5, 2.0]}, cv=3).fit(X, Y)
    assert n_releases("digits") == 4 + 2 * 3 + 1
    cross_val_score(make_pipeline(Normalizer(), DPCosineClassifier(classes=DIGITS, data_id="digits")), X, Y, cv=2)
    assert n_releases("digits") == 13
    spent = [1.0] * 6 + [0.5] * 3 + [2.0] * 3 + [search.best_params_["epsilon"]]
    sigmas = [dpcl.account(epsilon=one, delta=1e-5).sigma for one in spent]
    together = dpcl.account(sigma=sum(sigma**-2 for sigma in sigmas) ** -0.5, delta=1e-5).epsilon
    assert model.privacy_.epsilon_of_all == pytest.approx(together, rel=1e-3)
    assert "All estimators fitted on 'digits' together: epsilon" in str(search.best_estimator_.privacy_)
    assert n_releases() == 0


def test_spend_is_that_of_the_user_not_of_the_process(home: Path) -> None:
    DPCosineClassifier(classes=DIGITS).fit(X, Y)
    code = (
        "import dpcl_core as dpcl, numpy as np\n"
        "dpcl.DPCosineClassifier(classes=[0, 1]).fit(np.eye(2), [0, 1])\n"
        "print(dpcl.budget().epsilon(1e-5, 'add-remove'))\n"
    )
    spent = float(python("-c", code))
    assert n_releases() == 2
    assert spent == pytest.approx(dpcl.budget().epsilon(1e-5, "add-remove"))
    (kept,) = home.glob("estimators.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 or sys.platform == "win32"


def test_a_spent_budget_refuses_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    dpcl.budget("mine", epsilon=2.0)
    for _ in range(3):
        DPCosineClassifier(classes=DIGITS, data_id="mine").fit(X, Y)
    monkeypatch.setattr(handed, "places_of", lambda *_: pytest.fail("a label was read"))
    monkeypatch.setattr(estimators, "noisy_class_sums", lambda *_, **__: pytest.fail("a row was read"))
    for settings in ({}, {"epsilon": math.inf}, {"random_state": 0}, {"labels": "data"}):
        with pytest.raises(dpcl.BadInput, match=r"data_id = mine: has a budget of epsilon 2, .* nothing was read"):
            DPCosineClassifier(**{"classes": DIGITS, "data_id": "mine", **settings}).fit(X, Y)
    assert n_releases("mine") == 3
    assert "Budget: epsilon 2" in str(dpcl.budget("mine"))
    assert (dpcl.budget("mine", epsilon=math.inf).budget, n_releases("mine")) == (None, 3)


def test_what_fits_exactly_is_not_refused() -> None:
    dpcl.budget("mine", epsilon=1.0)
    DPCosineClassifier(classes=DIGITS, data_id="mine").fit(X, Y)


@pytest.mark.parametrize(("where", "step", "model"), [
    (estimators, "noisy_class_sums", DPCosineClassifier(classes=DIGITS)),
    (estimators.Job, "trained", DPHeadEnsemble(classes=DIGITS, **QUICK)),
])
def test_a_release_is_charged_before_it_is_made(where: Any, step: str, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, step, raising(MemoryError))
    with pytest.raises(MemoryError):
        model.fit(X, Y)
    assert n_releases() == 1


def test_of_many_charges_at_once_none_is_lost() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: spend.charge("shared", spend.Release(4.0, 0)), range(40)))
    assert spend.account("shared").releases == {spend.Release(4.0, 0): 40}


def test_a_copy_may_see_the_same_people_again() -> None:
    model = DPCosineClassifier(classes=DIGITS, disjoint_people=True).partial_fit(X, Y)
    model.partial_fit(X, Y)
    assert n_releases() == 1
    pickle.loads(pickle.dumps(model)).partial_fit(X, Y)
    assert n_releases() == 2


def test_a_pickle_holds_what_was_released_and_no_row() -> None:
    model = DPCosineClassifier(classes=DIGITS).fit(X, Y).partial_fit(X, Y)
    arrays = {name: one.shape for name, one in model.__getstate__().items() if isinstance(one, np.ndarray)}
    assert arrays == {"classes_": (10,), "sums_": (10, 64), "_shrunk": (10, 64)}
    assert len(pickle.dumps(model)) < 8 * 10 * 64 * 2 + 4000
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()


def test_a_damaged_account_is_an_error_in_a_sentence(home: Path) -> None:
    put(home / "estimators.json", "{")
    refuses("is damaged", lambda: DPCosineClassifier(classes=DIGITS).fit(X, Y), error=RuntimeError)


# What types, shapes and declarations show is refused, and nothing is spent.

Fit = Callable[[], object]
REFUSED: dict[str, tuple[str, Fit]] = {
    "no classes": ("classes = None: must be the list of all labels", lambda: DPCosineClassifier().fit(X, Y)),
    "classes of two kinds": ("classes", lambda: DPCosineClassifier(classes=[0, "one"]).fit(X, Y)),
    "a missing class": ("classes", lambda: DPCosineClassifier(classes=[0, math.nan]).fit(X, Y)),
    "one text": ("classes", lambda: DPCosineClassifier(classes="01").fit(X, Y)),
    "texts for numbers": ("y = int64", lambda: DPCosineClassifier(classes=["0", "1"]).fit(X, Y)),
    "sparse": ("X = csr_array: must not be sparse", lambda: exact().fit(csr_array(X), Y)),
    "objects": ("X = object", lambda: exact().fit(X.astype(object), Y)),
    "ragged": ("X = list", lambda: exact().fit([[1.0], [1.0, 2.0]], [0, 1])),
    "texts": ("X column b", lambda: exact().fit(pd.DataFrame({"a": [1.0], "b": ["x"]}), [0])),
    "names twice": ("X columns", lambda: exact().fit(pd.DataFrame(np.eye(2), columns=["a", "a"]), [0, 1])),
    "one axis": ("X = 1 axes: must have two, rows and columns", lambda: exact().fit(X[:, 0], Y)),
    "no array": ("X = object: must be numbers", lambda: exact().fit(None, Y)),
    "dates": ("y = datetime64", lambda: exact().fit(X[:2], pd.Series(pd.date_range("2020", periods=2)))),
    "groups of other lengths": ("inconsistent", lambda: exact().fit(X, Y, groups=Y[1:])),
    "no rows": ("0 sample", lambda: exact().fit(X[:0], Y[:0])),
    "other lengths": ("inconsistent numbers of samples", lambda: exact().fit(X, Y[:-1])),
    "another width": ("X has 63 features", lambda: exact().fit(X, Y).partial_fit(X[:, 1:], Y)),
    "y of two columns": ("y = ndarray", lambda: exact().fit(X, np.stack([Y, Y], axis=1))),
    "epsilon": ("epsilon = 0", lambda: DPCosineClassifier(epsilon=0, classes=DIGITS).fit(X, Y)),
    "epsilon of text": ("epsilon = 1", lambda: DPCosineClassifier(epsilon="1", classes=DIGITS).fit(X, Y)),  # type: ignore[arg-type]
    "delta": ("delta = 0.01: must be below 1/1797", lambda: DPCosineClassifier(delta=0.01, classes=DIGITS).fit(X, Y)),
    "labels": ("labels", lambda: exact(labels="read").fit(X, Y)),
    "random_state": ("random_state", lambda: exact(random_state=np.random.RandomState(0)).fit(X, Y)),
    "adjacency of arrays": ("adjacency", lambda: exact(adjacency=np.zeros(2)).fit(X, Y)),
    "data_id": ("data_id", lambda: exact(data_id="").fit(X, Y)),
    "rows without persons": ("rows_per_person = 2: needs groups", lambda: exact(rows_per_person=2).fit(X, Y)),
    "another delta": ("delta = 1e-06: was another", lambda: exact().fit(X, Y).set_params(delta=1e-6).partial_fit(X, Y)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_costs_nothing(name: str) -> None:
    said, fit = REFUSED[name]
    assert said in str(refusal_of(fit, error=ValueError))
    assert n_releases() == (1 if "another" in name else 0)


def test_labels_that_are_read_protect_nobody() -> None:
    model = DPCosineClassifier(labels="data").partial_fit(X[of(0, 1, 2)], Y[of(0, 1, 2)]).partial_fit(X, Y)
    assert model.classes_.tolist() == DIGITS
    assert "The list of labels is read from the data" in str(model.privacy_)
    assert math.isinf(model.privacy_.epsilon)
    refuses("NaN or infinite", DPCosineClassifier(labels="data").fit, X, np.where(Y > 8, math.nan, Y), error=ValueError)


def test_nothing_of_a_model_is_there_before_it_is_fitted() -> None:
    model = DPCosineClassifier(classes=DIGITS)
    for ask in (lambda: model.privacy_, lambda: model.card_, lambda: model.predict(X)):
        with pytest.raises(NotFittedError):
            ask()


def test_shrinking_removes_the_noise_of_tasks_without_people_of_a_class() -> None:
    """Ten classes, one a task, each task with noise for all: what is added up is mostly noise."""
    scores = {}
    for prediction in ("added", "by-stream"):
        model = DPCosineClassifier(epsilon=2.0, classes=DIGITS, prediction=prediction)  # type: ignore[arg-type]
        for digit in DIGITS:
            model.partial_fit(X[of(digit)], Y[of(digit)])
        scores[prediction] = model.score(X, Y)
    assert scores["by-stream"] > scores["added"]


def test_tensors_are_arrays() -> None:
    torch = pytest.importorskip("torch")
    model = exact().fit(torch.tensor(X), torch.tensor(Y), groups=torch.arange(len(X)))
    assert (model.sums_ == exact().fit(X, Y).sums_).all()
    assert (model.predict(torch.tensor(X)) == model.predict(X)).all()


def test_frames_keep_their_names() -> None:
    frame = pd.DataFrame(X, columns=[f"pixel {place}" for place in range(64)])
    model = exact().fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == list(frame.columns)
    plain = exact().fit(X, Y).predict(X)
    assert (model.predict(frame) == plain).all()
    of_polars = polars.from_pandas(frame)
    assert (exact().fit(of_polars, polars.Series(Y)).predict(of_polars) == plain).all()
    holed = polars.concat([of_polars, of_polars[:1].with_columns(polars.lit(None).alias("pixel 3"))], how="vertical_relaxed")
    assert (exact().fit(holed, [*Y, 0]).sums_ == exact().fit(X, Y).sums_).all()


def test_the_examples_of_its_docstrings_hold() -> None:
    tried = doctest.testmod(estimators)
    assert tried.attempted > tried.failed == 0


# The private ensemble of last layers for scikit-learn: trained by DP-SGD, charged before its first step.


def test_members_of_all_calls_vote() -> None:
    model = DPHeadEnsemble(epsilon=math.inf, disjoint_people=True, **QUICK)
    for first in (0, 5):
        task = of(*range(first, first + 5))
        model.partial_fit(unit_rows(X)[task], Y[task], classes=range(first, first + 5))
    assert [labels.tolist() for labels, _ in model.members_] == [DIGITS[:5], DIGITS[5:]]
    assert model.classes_.tolist() == DIGITS
    logits = np.hstack([np.hstack([unit_rows(X), np.ones((len(X), 1))]) @ weights.T for _, weights in model.members_])
    assert (model.predict(unit_rows(X)) == logits.argmax(axis=1)).mean() > 0.999
    assert model.score(unit_rows(X), Y) > 0.6


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_training_costs_what_is_asked_and_stands_on_its_card(is_apart: bool) -> None:
    from dp_accounting.pld import PLDAccountant

    model = DPHeadEnsemble(classes=DIGITS, disjoint_people=is_apart, data_id="trained", **QUICK)
    model.partial_fit(unit_rows(X), Y).partial_fit(unit_rows(X), Y)
    assert (0.9 < model.privacy_.epsilon <= 1.0) is is_apart
    assert model.privacy_.epsilon_of_all == pytest.approx(model.privacy_.epsilon, rel=1e-6)
    assert verdicts(model) == ["matches"]
    accountant = PLDAccountant().compose(model.card_.to_dp_events())
    assert accountant.get_epsilon(1e-5) == pytest.approx(model.privacy_.epsilon, rel=1e-2)
    DPCosineClassifier(classes=DIGITS, data_id="trained").fit(X, Y)
    assert model.privacy_.epsilon_of_all > model.privacy_.epsilon
    assert n_releases("trained") == (2 if is_apart else 3)


def test_rows_that_show_nothing_leave_a_training_as_it_was() -> None:
    plain = DPHeadEnsemble(epsilon=math.inf, classes=DIGITS, random_state=0, sample_rate=1.0, epochs=3).fit(X[:100], Y[:100])
    odd = clone(plain).fit(np.vstack([X[:100], X[:1]]), [*Y[:100], "seven"])
    scaled = plain.members_[0][1] @ np.ones(65), odd.members_[0][1] @ np.ones(65)
    np.testing.assert_allclose(*scaled, rtol=1e-3, atol=1e-4)  # a step is divided by the public number of rows


@pytest.mark.parametrize(("name", "value"), [("epochs", 0), ("sample_rate", 2.0), ("clip_norm", 0.0), ("rule", "majority")])
def test_settings_of_a_training_are_checked_before_it_is_charged(name: str, value: object) -> None:
    refuses(name, lambda: DPHeadEnsemble(classes=DIGITS, **{**QUICK, name: value}).fit(X, Y))
    assert n_releases() == 0
