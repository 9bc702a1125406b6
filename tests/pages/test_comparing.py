"""Which runs can be compared, and where settings differ."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dpcl_core import checks
from dpcl_core.backbones import catalog as backbones
from dpcl_core.methods import catalog as methods
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import DataSpec, PrivacySpec, RunSpec, fields_of
from pages.parts import comparison, fields
from tests.support import replay


def _with(**changes: object) -> RunSpec:
    raw: dict[str, object] = {"scenario": {"tasks": 5}, "privacy": {"epsilons": [1.0, 8.0]}} | changes
    return checks.parse(raw)


def test_same_tests_need_no_warning_whatever_the_method_does() -> None:
    assert comparison.different_tests({"A": _with(), "B": _with(labels="prior", seeds=[0])}) is None


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"data": {"dataset": "mnist"}}, "different data (Handwritten digits, MNIST)"),
        ({"data": {"test_per_class": 5}}, "different subsets"),
        ({"public_labels": ["0", "1"]}, "different classes"),
        ({"scenario": {"tasks": 2}}, "different streams"),
    ],
)
def test_different_tests_are_named(other: dict[str, object], words: str) -> None:
    warning = comparison.different_tests({"A": _with(), "B": _with(**other)})
    assert warning is not None
    assert words in warning
    assert warning.startswith("A and B")


def test_runs_of_one_method_and_dataset_are_told_apart_in_a_line() -> None:
    one = {"A": _with(), "B": _with(labels="prior")}
    assert comparison.what_differs(one) == "They differ in: Label list (One public list / A public list per task)."
    several = {"A": _with(), "B": _with(labels="prior", seeds=[0], scenario={"tasks": 2}, privacy={"epsilons": [2.0]})}
    said = comparison.what_differs(several)
    assert said is not None
    assert "; Label list (" in said
    assert said.endswith(" and 1 more.")
    assert comparison.what_differs({"A": _with(), "B": _with()}) is None
    assert comparison.what_differs({"A": _with(), "B": _with(data={"dataset": "mnist"})}) is None


def test_own_data_are_called_as_on_other_pages() -> None:
    own = replace(_with(), data=replace(_with().data, dataset="own:people"))
    rows, _ = comparison.differences({"A": _with(), "B": own})
    assert [row["B"] for row in rows if row["setting"] == "Dataset"] == ["people (own data)"]


def test_shared_budgets() -> None:
    specs = [replay.a_spec(epsilons=(1.0, 8.0, math.inf)), replay.a_spec(epsilons=(8.0, math.inf, 0.5))]
    assert comparison.shared_budgets(specs) == [8.0, math.inf]
    assert comparison.shared_budgets([]) == []


def test_only_settings_that_differ_are_listed() -> None:
    rows, n_equal = comparison.differences({"A": _with(), "B": _with(labels="prior", scenario={"tasks": 2})})
    assert {row["setting"]: (row["A"], row["B"]) for row in rows} == {
        "Label list": ("One public list", "A public list per task"), "Tasks": ("5", "2"),
    }  # fmt: skip
    assert n_equal > 8


def test_settings_and_their_values_are_named_as_on_the_form_of_train() -> None:
    one = _with(privacy={"epsilons": [1.0], "adjacency": "replace"})
    film = {"method": "peft-ensemble", "params": {"adapter": "film", "sample_rate": 0.25}, "data": {"backbone": "vit"}}
    other = _with(**film, privacy={"epsilons": [1.0, 8.0]}, tuned="public")
    rows, _ = comparison.differences({"A": one, "B": other})
    none = "not a setting here"
    named = {row["setting"]: (row["A"], row["B"]) for row in rows}
    assert named["Method"] == (methods.CARDS["cosine"].title, methods.CARDS["peft-ensemble"].title)
    assert named["Adapted parts"] == (none, "FiLM")
    assert named["Sampling rate q"] == (none, "0.25")
    assert named["Network for the features"][0] == backbones.CARDS["pixels"].title
    assert named["Privacy budget ε"] == ("1", "1, 8")
    assert named["Neighbouring datasets differ by"] == ("one example replaced", "one example present or left out")
    assert named["These settings were tuned"] == ("not by looking at results on any data", "on public data (by your word)")


@pytest.mark.parametrize("scenario", scenarios.CARDS)
def test_every_setting_of_a_run_has_a_name_for_readers(scenario: str) -> None:
    for method in methods.CARDS:
        _check_names(method, scenario)


def _check_names(method: str, scenario: str) -> None:
    settings = [f"data.{name}" for name in fields_of(DataSpec)]
    settings += [f"privacy.{name}" for name in fields_of(PrivacySpec)]
    settings += [name for name in fields_of(RunSpec) if name not in ("params", "data", "scenario", "privacy")]
    settings += [f"params.{name}" for name in fields_of(methods.CARDS[method].params)]
    settings += [f"scenario.{name}" for name in fields_of(scenarios.CARDS[scenario].settings)]
    titles = {key: fields.title(key, method, scenario) for key in settings}
    assert not [key for key, title in titles.items() if title == key]
    assert len(set(titles.values())) == len(titles), "two columns of a table have two names"


def _comparable(**runs: RunSpec) -> tuple[str, str] | None:
    return comparison.comparable(runs)


def test_a_pair_without_a_warning_and_with_enough_seeds_comes_first() -> None:
    one, prior, unbounded = (replay.a_spec(labels=labels) for labels in ("prior-const", "prior", "data"))
    assert _comparable(a=unbounded, b=one) is None, "their ε are not of one kind"
    assert _comparable(a=unbounded, b=one, c=prior) == ("b", "c")
    single = replay.a_spec(labels="dp-learned", seeds=(0,))
    assert _comparable(a=single, b=one) == ("a", "b")
    assert _comparable(a=single, b=one, c=prior) == ("b", "c")
    noiseless = {labels: replay.a_spec(labels=labels, epsilons=(math.inf,)) for labels in ("prior", "prior-const")}
    assert _comparable(a=noiseless["prior"], b=noiseless["prior-const"], c=one, d=prior) == ("c", "d")


def test_runs_with_too_few_shared_seeds_are_to_be_run_with_enough() -> None:
    one, other, more = (replay.a_spec(seeds=seeds) for seeds in ((0,), (1,), (4, 5, 6, 7)))
    assert {name: spec.seeds for name, spec in comparison.with_enough_seeds({"A": one, "B": other}).items()} == {
        "A": (0, 1, 2), "B": (0, 1, 2),
    }  # fmt: skip
    enough = comparison.with_enough_seeds({"A": one, "B": more})
    assert {name: spec.seeds for name, spec in enough.items()} == {"A": more.seeds}
    assert comparison.with_enough_seeds({"A": more, "B": replay.a_spec(seeds=(5, 6, 7))}) == {}
