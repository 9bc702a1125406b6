"""Lessons 1 and 2 in the browser: their arithmetic in JavaScript against the lessons' own, and their words and data."""

import csv
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from dpcl_core.elements.element import LESSON
from dpcl_core.figures.statistics import interval_factor
from dpcl_core.lessons import in_browser, noise, text
from dpcl_core.lessons import label as label_game
from dpcl_core.privacy import continual, gaussian, statement
from dpcl_core.privacy.audit_bounds import bound_of_counts
from dpcl_core.privacy.sums import unit_rows
from tests.lessons import reference
from tests.support import javascript

SIGMA = gaussian.sigma(1.0, label_game.DELTA)
# Noise that both languages get alike: any numbers will do.
DRAWS = "let place = 0; const given = (n) => Float64Array.from({ length: n }, () => Math.sin((place += 1) ** 2));"


def run(name: str, case: str) -> Any:
    """What the element's scripts answer for the data of a lesson, which are `game` there."""
    game = in_browser.document(name)["game"]
    return javascript.run(LESSON.module, "const game = opened(fromPython);" + DRAWS + case, sent=game)


def test_the_noise_is_standard_normal() -> None:
    """A Kolmogorov-Smirnov test of 20,000 draws that fails by chance once in a million; a spread 5 % off has p < 1e-9."""
    found = run("label", "return [...normals(20001)];")
    assert len(found) == 20001
    assert kstest(found, "norm").pvalue > 1e-6


def test_releases_are_the_lessons_sums_and_lists(told: label_game.Neighbours) -> None:
    """Without noise the sums of unit rows; the document keeps them in single precision."""
    case = (
        "const sides = [false, true].flatMap((isIn) => ['data', 'prior-const'].map((list) => release(game, isIn, list, 0)));"
        "return sides.map(({ labels, sums }) => ({ labels, sums: sums.map((s) => s && [...s]) }));"
    )
    found = iter(run("label", case))
    for is_in in (False, True):
        rows, labels = unit_rows(told.data(is_in)[0]), told.data(is_in)[1]
        for listing in in_browser.LISTS:
            one = next(found)
            assert one["labels"] == list(reference.release(told, is_in, listing, 1.0).labels)
            for label in one["labels"]:
                np.testing.assert_allclose(one["sums"][label], rows[labels == label].sum(axis=0), rtol=1e-6, atol=1e-5)


def test_the_attackers_evidence_is_the_lessons(told: label_game.Neighbours) -> None:
    """Sums in single precision move the evidence by as much."""
    released = reference.release(told, True, "prior-const", 1.0, 3)
    sums = released.sums[:, told.label].tolist()
    found = run("label", f"return {json.dumps(sums)}.map((s) => sumEvidence(game, s, {SIGMA!r}));")
    np.testing.assert_allclose(found, reference.evidence(told, released, "prior-const", 1.0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_a_public_list_is_attacked_as_well_as_anybody_can_and_the_list_from_the_data_always(epsilon: float) -> None:
    """Five standard errors around the best possible, 6e-7; no cut above the exact curve, in one of a million games."""
    sigma = gaussian.sigma(epsilon, label_game.DELTA)
    case = (
        f"const std = {sigma!r}, duel = play(game, 'prior-const', std, 5000);"
        "const four = { ...game, counts: game.counts.map((n, c) => (c === game.label ? 4 : n)) };"
        "return { held: counted(duel), isHeld: isHeld(duel, std, curve(duel, 40)), "
        "broken: isHeld(duel, 2 * std, curve(duel, 40)), free: counted(play(game, 'data', std, 100)), "
        "rule: counted(play(four, 'data', std, 100, 5)), empty: counted(playEmpty(game, true, std, 5000)),"
        "none: counted(playEmpty(game, false, std, 100)) };"
    )
    found = run("label", case)
    best = statement.gaussian_odds_bound(sigma)
    for name in ("held", "empty"):
        assert abs(found[name]["share"] - best) < 5 * math.sqrt(best * (1 - best) / 10_000)
    assert found["isHeld"]
    assert not found["broken"] or epsilon < 1, "half the promised noise is noticed where it shows in 5,000 rounds"
    for name in ("free", "rule", "none"):
        assert (found[name]["hits"], found[name]["falseAlarms"]) == (100, 0)


def test_bounds_and_curves_are_the_lessons() -> None:
    """Limits of shares are searched to 1e-15, the normal quantile to 1e-14."""
    counts = [(10, 10, 0, 10), (2000, 2000, 0, 2000), (900, 1000, 80, 1000), (540, 1000, 480, 1000), (0, 50, 0, 50)]
    counts += [(3, 7, 1, 9), (7, 9, 0, 40)]
    alarms = [0.0, 1e-4, 0.01, 0.3, 0.9, 1.0]
    case = (
        f"return {{ bounds: {json.dumps(counts)}.map((one) => boundOfCounts(...one, 1e-5)),"
        f"exact: {json.dumps(alarms)}.map((a) => exactHits(a, {SIGMA!r})),"
        f"promised: {json.dumps(alarms)}.map((a) => promisedHits(a, 1, 1e-5)) }};"
    )
    found = run("label", case)
    np.testing.assert_allclose(found["bounds"], [bound_of_counts(*one, 1e-5) for one in counts], rtol=1e-8)
    np.testing.assert_allclose(found["exact"], reference.exact_hits(np.array(alarms), SIGMA), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["promised"], noise.promised_hits(np.array(alarms), 1.0, 1e-5), rtol=1e-12)


def test_without_noise_the_classifier_is_that_of_a_run() -> None:
    """Ties apart, of which these digits have none, both name the same class for every picture."""
    streams = {cut: [noise.stream(cut, seed) for seed in (0, 1)] for cut in (2, 10)}
    orders = {cut: [[c for task in one.tasks for c in task.prior] for one in pair] for cut, pair in streams.items()}
    all_of = "orders.map((order) => finalAccuracy(game, true, Number(cut), 0, order))"
    accuracies = run("noise", f"return Object.entries({json.dumps(orders)}).map(([cut, orders]) => {all_of});")
    for cut, found in zip(orders, accuracies, strict=True):
        assert found == pytest.approx(reference.learned("prior-const", cut, (math.inf,), (0, 1))[0][math.inf], abs=1e-12)


def test_the_noise_grows_by_its_formula_and_remembered_noise_is_as_wide_as_its_own() -> None:
    """200 x 64 numbers a number of tasks, five standard errors (6e-7)."""
    of_all, remembering = "measuredStd(one, 3, 10, 200, 64)", "[1, 10, 50].map((n) => measuredRemembered(n, 200, 64))"
    found = run("noise", f"return [...[true, false].map((one) => {of_all}), {remembering}];")
    added, alone, remembered = map(np.array, found)
    least = [continual.choose(n).least for n in (1, 10, 50)]
    ratios = [added / (3 * np.sqrt(np.arange(1, 11))), alone / 3, remembered / least]
    assert np.concatenate(ratios) == pytest.approx(1, abs=5 / math.sqrt(2 * 200 * 64))


@pytest.mark.parametrize("n_tasks", [1, 5, 40])
def test_the_square_root_is_that_of_the_mechanism(n_tasks: int) -> None:
    shown = "return [[...of.column], [...of.decoder], of.sensitivity, of.noise];"
    column, decoder, sensitivity, spread = run("noise", f"const of = squareRoot({n_tasks}); {shown}")
    of = continual.square_root(n_tasks)
    assert column == of.column.tolist()
    np.testing.assert_allclose(decoder, of.decoder, rtol=1e-12)
    assert sensitivity == pytest.approx(of.sensitivity(), rel=2e-9)  # the mechanism's is rounded up
    assert spread == pytest.approx(continual.choose(n_tasks).least, rel=1e-6)


@pytest.mark.parametrize(("way", "std", "least"), [("per task", 20.0, 0), ("one list", 20.0, 0), ("shrunk", 14.0, 0.3)])
def test_noise_moves_the_classifier_as_written_out_plainly(way: str, std: float, least: float) -> None:
    """The released sums of each digit's task, or of all tasks; shrunk by the mechanism's rule on every task."""
    n_tasks, rest = 5, f"[...Array(10).keys()], given, {json.dumps(way == 'shrunk')}"
    found = run("noise", f"return finalAccuracy(game, {json.dumps(way != 'per task')}, {n_tasks}, {std}, {rest});")
    ((rows, labels, _, truth),) = noise.unit_digits(1)
    n_layers = 1 if way == "per task" else n_tasks
    released = std * np.sin(np.arange(1, 10 * n_layers * 64 + 1, dtype=np.float64) ** 2).reshape(10, n_layers, 64)
    released[:, 0] += np.stack([rows[labels == label].sum(axis=0) for label in range(10)])
    sums = (continual.shrunk(released, std) if way == "shrunk" else released).sum(axis=1)
    raw = np.asarray(noise.stream(1).tasks[0].test.inputs, dtype=np.float64)
    hits = (raw @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T).argmax(axis=1) == truth
    accuracies = [hits[np.isin(truth, (2 * k, 2 * k + 1))].mean() for k in range(n_tasks)]
    assert found == pytest.approx(np.mean(accuracies), abs=1e-12)
    assert least <= found < (0.9 if way == "shrunk" else 0.8), "the noise must show"


def test_shrinking_takes_back_most_of_what_one_list_costs() -> None:
    """Ten tasks at epsilon 1, 40 runs each. Measured: 64, 85 and 87 %, deviations at most 7: ten points are six errors."""
    std = gaussian.sigma(1.0, 1e-5)
    case = (
        f"const all = (...rest) => meanOf(Array.from({{ length: 40 }}, () => finalAccuracy(game, ...rest)));"
        f"return [all(true, 10, {std}), all(true, 10, {std}, undefined, undefined, true)];"
    )
    added_up, kept = run("noise", case)
    assert kept > added_up + 0.1


def test_every_step_has_its_code_and_the_other_way_round() -> None:
    found = run("label", "return [labelSteps, noiseSteps].map(Object.keys);")
    assert found == [[step.key for step in text.load(name).steps] for name in text.IN_BROWSER]


REPORT: dict[str, object] = {"step": 2, "done": [1], "predictions": {"0": 2}, "values": {"epsilon": 8}}


def taken(reported: object) -> text.Progress:
    """The progress of somebody at step 2 with a tick at the first, after what the browser reports."""
    progress = text.Progress(1, {0})
    progress.take(reported, text.load("label"))
    return progress


def test_a_report_of_the_browser_is_taken_over() -> None:
    assert taken(REPORT) == text.Progress(2, {0, 1}, {0: 2}, {"epsilon": 8.0})


@pytest.mark.parametrize("wrong", [
    {"step": 8}, {"step": "1"}, {"done": [9]}, {"done": 3}, {"predictions": {"0": 3}}, {"predictions": {"x": 0}},
    {"values": {}}, {"values": {"epsilon": 17}}, {"values": {"epsilon": "1"}},
])  # fmt: skip
def test_what_the_browser_cannot_have_reported_changes_nothing(wrong: dict[str, object]) -> None:
    assert taken({**REPORT, **wrong}) == taken(None) == text.Progress(1, {0})


def test_error_bars_are_those_of_the_figures() -> None:
    document: dict[str, Any] = in_browser.document("noise")
    assert document["game"]["interval_factor"] == interval_factor(len(noise.SEEDS))


@pytest.mark.parametrize("name", text.IN_BROWSER)
def test_the_document_holds_the_lessons_own_words_and_is_small(name: str) -> None:
    document: dict[str, Any] = in_browser.document(name)
    assert len(json.dumps(document)) < 100_000
    for step, given in zip(text.load(name).steps, document["lesson"]["steps"], strict=True):
        for part in ("predict", "do", "see", "explain"):
            assert "".join(piece if isinstance(piece, str) else piece[0] for piece in given[part]) == getattr(step, part)
    assert document["start"]["values"] == {"epsilon": 1.0}


def test_promises_are_those_of_the_ledger(told: label_game.Neighbours) -> None:
    document: dict[str, Any] = in_browser.document("label")
    for listing in in_browser.LISTS:
        given = reference.promise(told, listing, 2.0, reference.release(told, True, listing, 2.0).ledger)
        words = statement.guarantee_words(given)
        assert given.noise == "release"
        if listing == "data":
            assert words.banner == document["words"]["no_bound"]
        else:
            assert words.headline == document["game"]["promises"]["2"]


def test_a_figures_file_has_every_named_point_and_survives_commas_and_quotes() -> None:
    case = """
        const series = [
            { kind: "line", points: [[0, 0]] },
            { name: 'one, "promised"', points: [[1, 2], [3, 4.5]] },
            { name: "own", points: [[10, 0.125]], half: [0.01] },
        ];
        return csv(drawnNumbers({ title: "tasks" }, { title: "accuracy" }, series));
    """
    head, *rows = csv.reader(run("noise", case).splitlines())
    assert head == ["series", "tasks", "accuracy", "half width of the interval"]
    assert rows == [['one, "promised"', "1", "2", ""], ['one, "promised"', "3", "4.5", ""], ["own", "10", "0.125", "0.01"]]


def test_a_page_of_the_course_names_the_lessons_number() -> None:
    in_course, alone = (in_browser.document("label", is_alone=each)["words"]["where"] for each in (False, True))  # type: ignore[index]
    assert in_course == f"Lesson {text.number('label')}, {alone}"
