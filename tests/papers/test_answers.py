"""Answers of questions: what is compared, the verdict in the quantity asked, its picture, and how it is cited."""

import math
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from dpcl_core import presets
from dpcl_core.figures.statistics import Interval
from dpcl_core.papers import answers, catalog, claims, comparison, measured, questions
from tests.papers import making

NAMES = [question.name for question in questions.questions()]
BLURRY = "blurry-digits"


def _question(name: str) -> questions.Question:
    return next(one for one in questions.questions() if one.name == name)


def _answer(drop: Callable[[float, int], float], count: Callable[[float, int], float], n_seeds: int = 4) -> answers.Answer:
    """The answer to "count or drop?" from two runs with these accuracies, by budget and seed."""
    specs = questions.specs(BLURRY)
    rules = {"drop": drop, "count": count}
    found = {label: making.run(rule, spec=specs[label], seeds=range(n_seeds)) for label, rule in rules.items()}
    return answers.answer(_question(BLURRY), {"small": found})


@pytest.mark.parametrize("name", NAMES)
def test_what_answers_a_question_exists_and_is_told_in_few_words(name: str) -> None:
    question, asked = _question(name), answers.table()[name]
    assert len(question.asked.split()) <= 8
    for form in question.forms.values():
        specs = presets.variants(form.name)
        for _, run, epsilon in asked.sides:
            if run in specs:
                assert epsilon in specs[run].privacy.epsilons
        assert asked.sides[0][1] in specs
    numbers = ["−99.9"] * len(asked.sides)
    for words in (asked.yes, asked.no):
        assert len(words.format(*numbers, gain="+99", more="+99", loss="99").split()) <= 12
    assert len(answers.recorded()[name].verdict.split()) <= 12


def test_a_clear_difference_is_told_with_both_levels_and_either_direction_of_an_open_question_is_found() -> None:
    drop = _answer(lambda epsilon, seed: 0.8 + 0.01 * seed, lambda epsilon, seed: 0.6 + 0.01 * seed)
    assert (drop.state, drop.excluded) == ("found", None)
    assert drop.verdict == "Drop: 82 % at ε = 1; counting again 62 %."
    count = _answer(lambda epsilon, seed: 0.6, lambda epsilon, seed: 0.8 + 0.01 * seed)
    assert (count.state, count.verdict[:16]) == ("found", "Count again: 82 ")


def test_an_undecided_answer_says_what_difference_it_excludes_and_one_seed_that_it_is_one() -> None:
    one = _answer(lambda epsilon, seed: 0.7 + 0.02 * seed, lambda epsilon, seed: 0.7 + 0.02 * (3 - seed))
    assert one.state == "cannot tell"
    assert one.verdict == f"73 against 73 %: less than {claims.bound_text(one.excluded)} points apart."
    few = _answer(lambda epsilon, seed: 0.9, lambda epsilon, seed: 0.5, n_seeds=2)
    assert few.state == "cannot tell"
    assert "apart" not in few.verdict


def test_a_forms_opposite_makes_an_answer_undecided_and_a_toy_says_nothing() -> None:
    question = _question("paper-split-cifar-100")
    levels = ({"ensemble-head": 0.8, "cosine": 0.5}, {"ensemble-head": 0.5, "cosine": 0.8})
    forms = {
        size: {
            label: making.run(lambda epsilon, seed, level=level: level + 0.01 * seed, spec=questions.specs(form.name)[label])
            for label, level in of_form.items()
        }
        for (size, form), of_form in zip(question.forms.items(), levels, strict=False)
    }
    mixed = answers.answer(question, forms)  # type: ignore[arg-type]
    assert (mixed.state, mixed.verdict) == ("cannot tell", "One form finds it, another the opposite.")
    toy = answers.recorded()["paper-pecl-alpha"]
    assert toy.state == "cannot tell"
    assert "guesses" in toy.verdict


@pytest.mark.parametrize(
    ("bound", "state", "word"), [(5.6, "not found", "No:"), (0.3, "cannot tell", "No attack"), (None, "not run", "")]
)
def test_an_attack_refutes_a_claimed_budget_only_above_it(bound: float | None, state: str, word: str) -> None:
    name = "permuted-mnist-lifelong"
    run = making.run(lambda epsilon, seed: 0.5, spec=questions.specs(name)["main"], epsilons=(0.5,))
    attacked = replace(run, models=tuple(replace(model, audited_epsilon=bound) for model in run.models))
    one = answers.answer(_question(name), {"small": {"main": attacked}})
    assert one.state == state
    assert one.verdict.startswith(word)


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_with_a_record_has_a_small_picture_of_it(name: str) -> None:
    one = answers.recorded()[name]
    drawn = answers.picture(one)
    assert (drawn == "") == (one.shown is None)
    if one.shown is not None:
        assert len(drawn.encode()) <= 6000
        root = ElementTree.fromstring(drawn)
        shown = "".join(root.itertext())
        first = one.shown.level(one.asked.sides[0], one.asked.metric)
        assert first is not None
        if len({side[1] for side in one.asked.sides}) > 1:
            assert answers._number(first.mean) in shown
        width, height = map(float, root.attrib["viewBox"].split()[2:])
        for mark in root.iter("circle"):
            assert 0 <= float(mark.attrib["cx"]) <= width
            assert 0 <= float(mark.attrib["cy"]) <= height


def test_a_citation_has_question_verdict_link_and_papers() -> None:
    one = answers.recorded()["paper-imagenet-r"]
    said = answers.citation(one, "https://lab/questions?v=1", "0.1.0")
    assert said.startswith("@misc{dpcl-paper-imagenet-r,")
    assert f"title = {{{one.question.asked} {one.verdict}}}".replace("%", r"\%") in said  # else it begins a comment
    assert r"howpublished = {\url{https://lab/questions?v=1}}" in said
    assert "tobaben2025" in said


def test_what_an_observer_measured_enters_the_record_in_its_own_unit() -> None:
    run = making.run(lambda epsilon, seed: 0.5, epsilons=(1.0,), seeds=(0,))
    (model,) = run.models
    with_bits = replace(run, models=(replace(model, metrics={**model.metrics, "exposure": 7.5}),))
    assert with_bits.by_seed(1.0, "exposure") == {0: 7.5}
    assert (measured.scale("exposure"), measured.unit("exposure")) == (1.0, "bits")
    assert (measured.scale("AF"), measured.unit("AF")) == (100.0, "points")


# Figures of the papers from our records.


def _drawn(paper: str, experiment: str, size: str, name: str, **chosen: object) -> comparison.Drawn:
    of = catalog.paper(paper)
    form = claims.form(of, catalog.experiment(of, experiment), size)  # type: ignore[arg-type]
    (figure,) = (one for one in form.experiment.figures if one.name == name)
    return comparison.draw_figure(form, figure, **chosen)  # type: ignore[arg-type]


def test_a_figure_over_tasks_holds_every_task_of_the_record_and_the_printed_end() -> None:
    drawn = _drawn("lifelong", "paper-permuted-mnist", "small", "3a")
    (spec,) = (spec for label, spec in presets.variants("paper-permuted-mnist-small").items() if label == "agem")
    record = questions.recorded({"agem": spec})["agem"]
    rows = drawn.table[drawn.table["run"].str.startswith("A-GEM")]
    for model in record.models:
        ours = rows[rows["seed"] == model.seed]["value"].tolist()
        assert ours == [value for value in model.curves["AA"] if value is not None]
    printed = {trace["name"]: trace["y"] for trace in drawn.picture.traces if "printed" in str(trace.get("name"))}
    assert {round(values[0], 1) for name, values in printed.items() if name.startswith("A-GEM")} == {71.0}


def test_runs_without_curves_are_named() -> None:
    records = questions.recorded(presets.variants("paper-adapters-bundled"))
    without = not any(model.curves for run in records.values() for model in run.models)
    drawn = _drawn("tobaben", "paper-adapters", "bundled", "2 and A.2")
    assert ("with the last task alone" in drawn.picture.finding) == without


def test_a_figure_over_settings_has_our_means_in_their_order() -> None:
    drawn = _drawn("cslr", "paper-cslr-anchors", "full", "2")
    assert drawn.table["setting"].tolist() == ["10 anchors", "25", "50", "100", "200"]
    run: measured.Measured = questions.recorded(presets.variants("paper-cslr-anchors"))["m-50"]
    mean = 100 * sum(run.by_seed(4.0, "AA").values()) / len(run.models)
    assert drawn.table.set_index("setting").loc["50", "ours"] == pytest.approx(mean)


def test_p_values_of_the_papers_tests_are_drawn_one_comparison_at_a_time() -> None:
    paper = catalog.paper("lifelong")
    form = claims.form(paper, catalog.experiment(paper, "paper-permuted-mnist"), "small")
    figure = next(one for one in form.experiment.figures if one.has_tests)
    tests = comparison.figure_tests(form, figure)
    assert len(tests) > 1
    drawn = comparison.draw_figure(form, figure, test=tests[0])
    assert len(drawn.table) == 19
    assert "Descriptive only" in drawn.note


def test_every_figure_of_every_paper_can_be_drawn_from_every_form_at_every_budget() -> None:
    for paper in catalog.PAPERS.values():
        for form in claims.recorded_forms(paper):
            for figure in form.experiment.figures if form.runs else ():
                for epsilon in comparison.figure_budgets(form, figure) or (None,):
                    test = next(iter(comparison.figure_tests(form, figure)), None)
                    assert comparison.draw_figure(form, figure, epsilon=epsilon, test=test).picture.finding


def test_a_bar_and_a_line_reach_where_their_values_are() -> None:
    root = ElementTree.fromstring(
        answers._drawn_rows([("a", Interval(50.0, None, None, 1)), ("b", Interval(100.0, None, None, 1))], unit="%")
    )
    half, whole = (float(bar.attrib["width"]) for bar in root.iter("rect"))
    assert whole == pytest.approx(2 * half, rel=0.01)
    lines = [("a", [(1, 0.0), (2, 100.0)]), ("b", [(1, 50.0), (2, 50.0)])]
    root = ElementTree.fromstring(answers._drawn_curves(lines, unit="%"))
    ends = sorted(float(dot.attrib["cy"]) for dot in root.iter("circle"))
    assert ends == [answers._TOP, (answers._TOP + answers._FOOT) / 2]
    assert math.isclose(answers._height(0.0, 0.0, 100.0), answers._FOOT)
