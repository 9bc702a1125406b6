"""A paper's claims and rows: what belongs together is compared, and a verdict is over all forms."""

import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import false_discovery_control, ttest_1samp

from dpcl_core import checks, metrics, presets
from dpcl_core.errors import BadInput
from dpcl_core.figures.statistics import interval, p_value
from dpcl_core.papers import catalog, claims, comparison, measured, other_data, report
from dpcl_core.papers.paper import ALIKE_POINTS, Judged, Ordering, Paper, Side, State, judge
from dpcl_core.spec import RunSpec
from tests.papers.making import run
from tests.support.asserting import includes, refuses
from tests.support.full_disk import no_room

LABELS = ("cosine", "naive")  # as printed; made to work
POINTS: dict[State, list[float]] = {
    "found": [1.0, 2.0, 3.0, 2.0],
    "not found": [-1.0, -2.0, -3.0, -2.0],
    "cannot tell": [-2.0, 1.0, 2.5],
}
TOBABEN = catalog.paper("tobaben")


def a_form(*states: State, sides: tuple[str, str] = LABELS, is_toy: bool = False, is_ours: bool = False) -> claims.Form:
    """The small form of a real experiment with one claim a state."""
    form = claims.form(TOBABEN, catalog.experiment(TOBABEN, "paper-split-cifar-100"), "small", {})
    sides_ = tuple(Side(label, 1.0) for label in sides)
    judged = [
        Judged(Ordering(f"claim {k}", *sides_, is_ours=is_ours), state, interval(POINTS[state]) if state in POINTS else None)
        for k, state in enumerate(states)
    ]
    return replace(form, judged=judged, is_toy=is_toy)


@pytest.mark.parametrize(("first", "second", "verdict"), [
    ("found", "found", "found"),
    ("found", "cannot tell", "found"),
    ("not found", "not run", "contradicted"),
    ("found", "not found", "mixed"),
    ("cannot tell", "not run", "undecided"),
    ("both guess", "not run", "undecided"),
    ("two editions", "cannot tell", "undecided"),
    ("not run", "not run", "not run"),
])
def test_the_forms_of_an_experiment_have_one_verdict(first: State, second: State, verdict: claims.Verdict) -> None:
    for one, other in ((first, second), (second, first)):
        (claim,) = claims.claims([a_form(one), a_form(other)])
        assert claim.verdict == verdict
        assert claim.p_value is None or verdict in ("found", "contradicted") or claim.p_value == 1


def test_toys_and_comparisons_of_ours_decide_nothing() -> None:
    assert [one.verdict for one in claims.claims([a_form("found", is_toy=True), a_form("not found")])] == ["contradicted"]
    assert [one.verdict for one in claims.claims([a_form("both guess", is_toy=True)])] == ["not run"]
    ours = a_form("found", "not found", is_ours=True)
    assert not claims.claims([ours])
    said = claims.sentence(claims.claims([ours], are_ours=True))
    assert said.startswith("Of 2 comparisons of our own: 1 found, 1 contradicted")
    assert not any(count.n_claims for count in claims.by_layer([ours]))


def test_claims_at_two_budgets_or_in_two_tables_are_two() -> None:
    form = a_form("found")
    (one,) = form.judged
    other_budget = replace(one, ordering=replace(one.ordering, first=Side("cosine", 8.0), second=Side("naive", 8.0)))
    assert len(claims.claims([form, replace(form, judged=[other_budget])])) == 2
    assert len(claims.claims([form, replace(form, experiment=catalog.experiment(TOBABEN, "paper-imagenet-r"))])) == 2
    assert len(claims.claims([form, replace(form, experiment=catalog.experiment(TOBABEN, "paper-adapters"))])) == 1


def test_an_undecided_claim_says_how_large_a_difference_it_excludes() -> None:
    wide, narrow = a_form("cannot tell"), a_form("cannot tell")
    narrow = replace(narrow, judged=[replace(narrow.judged[0], difference=interval([-1.0, 0.5, 0.4]))])
    (claim,) = claims.claims([wide, narrow])
    span = interval([-1.0, 0.5, 0.4])
    assert claim.excluded == pytest.approx(max(-span.low, span.high or 0))
    assert claims.claims([a_form("found")])[0].excluded is None
    assert claims.claims([a_form("both guess")])[0].excluded is None


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0], [-4.0, 1.0, 0.5, 0.2], [0.3] * 5, [5.0, 5.2, 4.9]])
def test_p_values_are_students_and_agree_with_the_interval(values: list[float]) -> None:
    difference = interval(values)
    p = p_value(difference)
    if difference.half_width > 0.1:  # else the interval reaches a step at least, and p with it
        assert p == pytest.approx(ttest_1samp(values, 0.0).pvalue, rel=1e-9)
        assert p_value(difference, 1.5) == pytest.approx(ttest_1samp(values, 1.5).pvalue, rel=1e-9)
    assert (p <= 0.05) == (abs(difference.mean) >= max(difference.half_width, 0.1))
    assert p_value(interval(values[:2])) == 1


def test_discoveries_are_those_of_an_independent_step_up() -> None:
    for paper in catalog.PAPERS.values():
        known = [(p, claim.verdict) for claim in claims.of_paper(paper) if (p := claim.p_value) is not None]
        adjusted = false_discovery_control([p for p, _ in known])
        kept = Counter(verdict for (_, verdict), q in zip(known, adjusted, strict=True) if q <= claims.FALSE_DISCOVERIES)
        found = claims.discoveries(claims.of_paper(paper))
        assert found == {"found": kept["found"], "contradicted": kept["contradicted"]}
        counts = claims.counts(claims.of_paper(paper))
        assert all(found[verdict] <= counts[verdict] for verdict in found)


def test_two_forms_of_a_claim_cost_a_factor_of_two() -> None:
    (alone,), (twice,) = claims.claims([a_form("found")]), claims.claims([a_form("found"), a_form("cannot tell")])
    assert twice.p_value == pytest.approx(2 * alone.p_value)


def test_claims_count_for_the_layer_that_all_deciding_runs_are_in() -> None:
    specs = dict(a_form().specs)
    as_they_are = replace(specs["cosine"].data, axes=0)  # features as the network has them
    specs["cosine"] = replace(specs["cosine"], data=as_they_are)
    forms = [a_form("found", sides=("naive", "ensemble-head")), a_form("cannot tell", "not found")]
    forms = [replace(form, specs=specs, runs={"cosine": 0, "naive": 0}) for form in forms]  # type: ignore[dict-item]
    assert claims.by_layer(forms) == [
        ("as printed", 2, 2, 0, 0), ("made to work", 2, 6, 1, 1), ("between layers", 0, 0, 0, 1)
    ]  # fmt: skip


def test_the_counts_of_every_paper_add_up() -> None:
    for paper in catalog.PAPERS.values():
        forms, of = claims.recorded_forms(paper), claims.of_paper(paper)
        counts = claims.counts(of)
        assert sum(counts.values()) == len(of)
        assert f"Of {len(of)} claims" in claims.sentence(of)
        assert sum(count.n_claims for count in claims.by_layer(forms)) == counts["found"] + counts["contradicted"]
        orderings = {(form.experiment.claimed_in, one.ordering) for form in forms for one in form.judged}
        papers_own = {(place, one) for place, one in orderings if not one.is_ours}
        budgets = ((place, one.statement, one.first.epsilon, one.second.epsilon) for place, one in papers_own)
        assert len(set(budgets)) == len(of)


def test_a_curves_trend_is_the_rise_of_its_line() -> None:
    assert metrics.trend([0.9, 0.8, 0.7, 0.6]) == pytest.approx(-0.3)
    assert metrics.trend([0.5, None, 0.7]) is None
    assert metrics.trend([0.5, None, 0.7, 0.8]) == pytest.approx(0.3)
    noisy = [0.5 + 0.01 * k + 0.02 * math.sin(3 * k) for k in range(20)]
    import numpy as np

    assert metrics.trend(noisy) == pytest.approx(19 * np.polyfit(range(20), noisy, 1)[0])


# Claims are found, not found or open by the interval of the paired difference, and never by the mean alone.


BASE = run(lambda epsilon, seed: 0.5 + 0.1 * seed)
HIGHER = Ordering("first is better", Side("first", 1.0), Side("second", 1.0))
ALIKE = Ordering("no change", Side("first", 1.0), Side("second", 1.0), kind="alike")


def _shifted(*points: float) -> dict[str, object]:
    return {"first": run(lambda epsilon, seed: 0.5 + 0.1 * seed + points[seed] / 100), "second": BASE}


@pytest.mark.parametrize(("ordering", "points", "state"), [
    (HIGHER, (3.0, 3.2, 2.8, 3.0), "found"),
    (HIGHER, (-3.0, -3.2, -2.8, -3.0), "not found"),
    (HIGHER, (9.0, -3.0, 5.0, 0.0), "cannot tell"),
    (HIGHER, (0.04, 0.04, 0.04, 0.05), "cannot tell"),  # narrow by luck, and printed as 0.0
    (ALIKE, (0.2, -0.2, 0.1, 0.0), "found"),
    (ALIKE, (4.0, 4.1, 3.9, 4.0), "not found"),
    (ALIKE, (-4.0, -4.1, -3.9, -4.0), "not found"),
    (ALIKE, (-1.9, -2.9, -2.4, -2.2), "not found"),  # a clear difference that may be larger than what counts as none
    (ALIKE, (0.8, 1.2, 1.0, 1.0), "found"),  # as clear, and surely smaller
    (ALIKE, (ALIKE_POINTS + 1, -1.0, 0.0, 2.0), "cannot tell"),
])
def test_states_follow_from_the_interval(ordering: Ordering, points: tuple[float, ...], state: str) -> None:
    found = judge(ordering, _shifted(*points))  # type: ignore[arg-type]
    assert (found.state, found.difference.mean) == (state, pytest.approx(sum(points) / 4))


@pytest.mark.parametrize(("ordering", "points"), [(HIGHER, 3.0), (HIGHER, -3.0), (ALIKE, 0.0), (ALIKE, 4.0)])
def test_two_runs_that_only_guess_decide_nothing(ordering: Ordering, points: float) -> None:
    """Both sides have to, by label; where chance is not known, or one side is above it, the interval decides as ever."""
    runs = {
        "first": run(lambda epsilon, seed: 0.25 + (points + 0.01 * seed) / 100),
        "second": run(lambda epsilon, seed: 0.25 + 0.02 * seed / 100),
    }
    decided = judge(ordering, runs)
    assert decided.state in ("found", "not found")
    above = 0.25 + max(points, 0.0) / 100  # the better of the two
    for chance, state in ((above, "both guess"), (above - 0.004, "both guess"), (above - 0.006, decided.state)):
        found = judge(ordering, runs, {"first": chance, "second": chance})
        assert (found.state, found.difference) == (state, decided.difference)
    for known in ("first", "second"):
        assert judge(ordering, runs, {known: 0.9}).state == decided.state


def test_a_run_that_forgot_all_it_knew_did_more_than_guess() -> None:
    """It ends at chance, 0.2, after having reached 0.2 + 4/5 of what it forgot on each of five tasks."""

    def forgetting(transfer: float) -> measured.Measured:
        made = run(lambda epsilon, seed: 0.2 + 0.001 * seed)
        tasks = {f"task{k}": 0.2 for k in range(1, 6)}
        models = [
            replace(model, metrics={**model.metrics, **tasks, "BWT": transfer - 0.001 * model.seed}) for model in made.models
        ]
        return replace(made, models=tuple(models))

    runs, chances = {"first": forgetting(0.0), "second": forgetting(-0.3)}, {"first": 0.2, "second": 0.2}
    ordering = replace(HIGHER, metric="BWT")
    assert judge(ordering, runs, chances).state == judge(ordering, runs).state == "found"
    assert judge(HIGHER, runs, chances).state == "both guess", "of its final accuracy nothing is left"
    slight = {**runs, "second": forgetting(-0.006)}  # 0.2 + 0.8 x 0.0075 is 0.4 of 0.5 points above what it ends at
    assert judge(ordering, slight, {"first": 0.203, "second": 0.203}).state == "both guess"
    assert judge(ordering, slight, {"first": 0.2, "second": 0.2}).state == "found"


def test_records_of_two_editions_are_not_paired_by_seed() -> None:
    runs = {"first": run(lambda epsilon, seed: 0.9), "second": replace(BASE, edition=measured.EDITION - 1)}
    found = judge(HIGHER, runs, {"first": 1.0, "second": 1.0})
    assert (found.state, found.difference) == ("two editions", None)
    assert judge(HIGHER, {label: replace(one, edition=measured.EDITION - 1) for label, one in runs.items()}).state == "found"
    assert "two editions" in report.range_text(found)
    assert report.range_text(judge(HIGHER, {"first": BASE})) == "not run"


def test_two_seeds_decide_nothing_and_a_missing_run_is_said() -> None:
    few = run(lambda epsilon, seed: 0.9, seeds=(0, 1))
    assert judge(HIGHER, {"first": few, "second": BASE}).state == "cannot tell"
    assert judge(HIGHER, {"first": few}).state == "not run"
    other = run(lambda epsilon, seed: 0.9, epsilons=(2.0,))
    assert judge(HIGHER, {"first": other, "second": BASE}).state == "not run"


def test_budgets_metrics_and_rules_can_be_the_sides() -> None:
    def grows(epsilon: float, seed: int) -> float:
        return 0.1 * epsilon + 0.01 * seed

    one = run(grows, by_rule=lambda epsilon, seed: grows(epsilon, seed) - 0.02)
    rises = judge(Ordering("rises", Side("a", 8.0), Side("a", 1.0)), {"a": one})
    assert (rises.state, round(rises.difference.mean, 6)) == ("found", 70.0)
    rules = judge(Ordering("rule", Side("a", 1.0, "argmax"), Side("a", 1.0, "median")), {"a": one})
    assert (rules.state, round(rules.difference.mean, 6)) == ("found", 2.0)
    forgets = judge(Ordering("forgets", Side("a", 8.0), Side("a", 1.0), metric="AF"), {"a": one})
    assert forgets.difference.mean == pytest.approx(7.0)


def test_equal_methods_are_rarely_told_apart() -> None:
    """No true difference, four seeds: the 95 % interval leaves out zero in 5 % of runs (band: 4 standard errors of 400)."""
    random.seed(7)
    decided = sum(
        judge(HIGHER, _shifted(*(random.gauss(0, 1) for _ in range(4)))).state != "cannot tell"  # type: ignore[arg-type]
        for _ in range(400)
    )
    assert 400 * 0.05 - 17.5 <= decided <= 400 * 0.05 + 17.5


PAPER = catalog.PAPERS["tobaben"]
CIFAR, _, _, _, FIVE, BLURRY, _ = PAPER.experiments


def _spec(name: str, label: str) -> RunSpec:
    return presets.variants(name)[label]


def _rows(runs: dict[str, measured.Measured], experiment: object = CIFAR) -> dict[tuple[str, float, str], comparison.Row]:
    return {(row.name, row.epsilon, row.metric): row for row in comparison.comparison_rows(PAPER, experiment, runs)}  # type: ignore[arg-type]


def test_ours_stand_beside_the_number_of_the_same_method() -> None:
    cosine = run(lambda epsilon, seed: 0.6 + 0.01 * seed, spec=_spec("paper-split-cifar-100", "cosine"))
    rows = _rows({"cosine": cosine})
    row = rows["Cosine classifier", 1.0, "AA"]
    assert (row.ours.mean, row.ours.n_seeds) == (pytest.approx(61.5), 4)
    assert (row.ours.std, row.difference) == (pytest.approx(1.2909944), pytest.approx(61.5 - 72.78))
    assert rows["Cosine classifier", math.inf, "AA"].ours is None
    assert len(rows) == 26


def test_a_doubtful_number_is_shown_and_not_used_and_one_that_is_not_printed_is_missing() -> None:
    rows = _rows({"head": run(lambda epsilon, seed: 0.8, spec=_spec("paper-split-cifar-100", "ensemble-head"))})
    row, unprinted = (rows["PEFT Ensemble (last layer)", epsilon, "AF"] for epsilon in (1.0, 8.0))
    assert (report.printed_text(row), row.usable, row.difference) == ("0.06 ± 0.00", None, None)
    assert (unprinted.printed, unprinted.ours is None) == (None, False)
    names = [row.name for row in rows.values()]
    assert names == sorted(names, key=names.index), "a method's rows stand together whatever the table leaves out"


def test_runs_in_several_layers_stand_each_beside_the_printed_number() -> None:
    name = "paper-cslr-ag-news-small"
    experiment = next(one for one in catalog.paper("cslr").experiments if one.name == "paper-cslr-ag-news")
    usual, literal = presets.load(name), presets.variants(name)["as-printed"]
    runs = {
        label: run(lambda epsilon, seed, top=top: top, spec=spec, epsilons=[4.0])  # type: ignore[misc]
        for label, spec, top in (("cslr", usual, 0.5), ("as-printed", literal, 0.3))
    }
    rows = [row for row in comparison.comparison_rows(catalog.paper("cslr"), experiment, runs) if row.metric == "AA"]
    ours = {row.name: row for row in rows if row.ours is not None}
    layers = {"CSLR (as printed)": "as printed", "CSLR (made to work)": "made to work"}
    assert {name: row.layer for name, row in ours.items()} == layers
    assert {row.printed.value for row in ours.values() if row.printed is not None} == {62.1}
    reasons = comparison.reasons(claims.form(catalog.paper("cslr"), experiment, "small", runs))
    assert any(one.startswith("params.averaging = 0.9; printed: 0. ") for one in reasons)


def test_a_record_says_edition_machine_and_commit_and_older_ones_without_are_read_and_marked(tmp_path: Path) -> None:
    """A file without the edition is of the first one; what is recorded today stays of today's when it is read again."""
    fresh = measured.stamped(run(lambda epsilon, seed: 0.5, spec=_spec("paper-split-cifar-100-small", "cosine")))
    assert fresh.machine.endswith(" cores")
    measured.write(tmp_path / "today.json", "tobaben", [fresh])
    assert measured.read_measured(tmp_path / "today.json") == (fresh,)
    document = json.loads((tmp_path / "today.json").read_text())
    assert document["runs"][0].pop("edition") == measured.EDITION
    del document["runs"][0]["machine"], document["runs"][0]["commit"]
    (tmp_path / "old.json").write_text(json.dumps(document))
    (older,) = measured.read_measured(tmp_path / "old.json")
    assert (older.machine, older.commit, fresh.made_before) == ("", "", ())
    assert any("public coins" in change for change in older.made_before)
    for figures, notes in ((fresh, ()), (older, older.made_before)):
        assert _rows({"cosine": figures}, CIFAR)["Cosine classifier", 1.0, "AA"].remarks == notes


def test_the_workshop_versions_numbers_stand_beside_the_later_ones() -> None:
    """All eighteen; forgetting is printed as a share."""
    found = comparison.earlier(PAPER, FIVE, comparison.comparison_rows(PAPER, FIVE, {}))
    assert len(found) == 18
    told = {(row.method, row.epsilon, row.metric): row for row, _ in found}
    assert told["PEFT Ensemble", 8.0, "AF"].usable == pytest.approx(3.0)
    for row, later in found:
        if row.metric == "AA":
            assert later.printed.value == row.printed.value  # type: ignore[union-attr]
    assert comparison.earlier(PAPER, CIFAR, comparison.comparison_rows(PAPER, CIFAR, {})) == ()


@pytest.mark.parametrize(
    ("paper", "experiment", "label"), [("tobaben", "paper-imagenet-r", "cosine"), ("lifelong", "paper-harw", "l2dp-ml")]
)
def test_data_with_other_classes_and_a_stand_in_give_no_difference(paper: str, experiment: str, label: str) -> None:
    of, spec = catalog.paper(paper), _spec(f"{experiment}-small", label)
    ours = {label: run(lambda epsilon, seed: 0.5, spec=spec, epsilons=spec.privacy.epsilons)}
    rows = comparison.comparison_rows(of, catalog.experiment(of, experiment), ours)
    both = [row for row in rows if row.ours is not None and row.printed is not None]
    assert both
    assert all(row.difference is None for row in both)


def test_what_the_paper_prints_about_a_claim() -> None:
    form = claims.form(PAPER, CIFAR, "full")
    found = {(o.statement, o.first.epsilon): comparison.printed_difference(form, o) for o in CIFAR.orderings}
    assert found["The ensemble (FiLM) beats the cosine classifier", 1.0] == pytest.approx(79.79 - 72.78)
    assert found["Ensemble (FiLM): without privacy it ends below ε = 8", 8.0] == pytest.approx(85.26 - 79.39)
    assert found["Naive collapses: it forgets more than the ensemble", 1.0] is None  # hangs on the doubtful number
    assert found["ArgMax is a better rule than Median", 1.0] is None  # published as a plot


def _reasons(*runs: measured.Measured) -> tuple[str, ...]:
    return comparison.reasons(claims.form(PAPER, CIFAR, "small", {f"{place}": one for place, one in enumerate(runs)}))


def test_reasons_follow_from_settings_and_data() -> None:
    small = run(lambda epsilon, seed: 0.5, spec=_spec("paper-split-cifar-100-small", "ensemble-head"))
    said = " ".join(_reasons(small))
    includes(said, "EfficientNet-Lite0, trained on ImageNet, instead of a ViT-B/16", "Data: Digits")
    assert "Tuning: the learning rate alone, on public data" in said
    assert "Epochs" not in said
    fewer = checks.parse(checks.apply_sets(presets.raw("paper-split-cifar-100-small"), ["params.epochs=5", "tuned=no"]))
    said = " ".join(_reasons(run(lambda epsilon, seed: 0.5, spec=fewer)))
    includes(said, "Epochs: 5", "Tuning: none")
    assert _reasons() == ()


def test_plots_alone_give_rows_by_label() -> None:
    blurry = run(lambda epsilon, seed: 0.5, spec=_spec("paper-blurry-small", "cosine-i-blurry"))
    rows = _rows({"cosine-i-blurry": blurry}, BLURRY)
    name = "Cosine classifier, i-Blurry"
    assert set(rows) == {(name, epsilon, metric) for epsilon in (1.0, 8.0) for metric in ("AA", "AF")}
    assert {row.method for row in rows.values()} == {"cosine-i-blurry"}


def test_figures_survive_their_file_and_newer_ones_take_the_place_of_older(tmp_path: Path) -> None:
    file = tmp_path / "new" / "figures.json"
    first = run(lambda epsilon, seed: 0.5, spec=_spec("paper-split-cifar-100-small", "cosine"), epsilons=(1.0, math.inf))
    ways = {"replay": 1.0, "head": math.inf, "total": math.inf}
    first = replace(first, models=tuple(replace(m, channel_epsilons=ways, audited_epsilon=2.5) for m in first.models))
    other = run(lambda epsilon, seed: 0.25, by_rule=lambda epsilon, seed: 0.125)
    measured.write(file, "tobaben", [first, other])
    assert measured.read_measured(file) == (first, other)
    json.loads(file.read_text(encoding="utf-8"), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    newer = run(lambda epsilon, seed: 0.75, by_rule=lambda epsilon, seed: 0.5)
    measured.write(file, "tobaben", [newer])
    assert measured.read_measured(file) == (first, newer)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[]", encoding="utf-8")
    refuses("must be a file that `reproduce --record` wrote", measured.read_measured, tmp_path / "x.json")


def test_a_full_disk_costs_no_earlier_record(tmp_path: Path) -> None:
    first = run(lambda epsilon, seed: 0.5, spec=_spec("paper-split-cifar-100-small", "cosine"), epsilons=(1.0, math.inf))
    other = run(lambda epsilon, seed: 0.25)
    file = tmp_path / "figures.json"
    measured.write(file, "tobaben", [first])
    with no_room(file.stat().st_size), pytest.raises(BadInput, match="must be a file that can be written"):
        measured.write(file, "tobaben", [other])
    assert measured.read_measured(file) == (first,)
    assert list(tmp_path.iterdir()) == [file]
    assert file.stat().st_mode & 0o044 == 0o044, "others may read it, as any file of a checkout"


@pytest.mark.parametrize("paper", catalog.PAPERS.values(), ids=lambda paper: paper.name)
def test_recorded_figures_belong_to_the_presets(paper: Paper) -> None:
    """A preset that changed must be recorded anew: figures of settings that nothing runs any more must not lie about."""
    known = [
        spec
        for experiment in paper.experiments
        for size in experiment.sizes
        for spec in presets.variants(experiment.preset(size)).values()
    ]
    known += [spec for _, form in other_data.recorded(paper) for spec in form.specs.values()]
    for found in measured.recorded(paper.name):
        assert found.spec in known
        assert {(m.epsilon, m.seed) for m in found.models} == {(c.epsilon, c.seed) for c in found.spec.cells()}
        assert paper is not PAPER or all(m.accounted_epsilon <= m.epsilon * (1 + 1e-9) for m in found.models)


def test_budgets_that_a_paper_only_claims_are_told_apart() -> None:
    claims = PAPER.model_copy(update={"nominal": (comparison.comparison_rows(PAPER, CIFAR, {})[0].method,)})
    rows = comparison.comparison_rows(claims, CIFAR, {})
    assert any(row.is_nominal for row in rows)
    assert all(row.is_nominal == (row.method in claims.nominal and math.isfinite(row.epsilon)) for row in rows)
    assert not any(row.is_nominal for row in comparison.comparison_rows(PAPER, CIFAR, {}))


def test_what_the_ledger_adds_up_to_is_the_largest_of_all_seeds() -> None:
    """Seeds split the data differently: one may read a text again that another does not."""
    made = run(lambda epsilon, seed: 0.5, epsilons=(1.0, 8.0), seeds=(0, 1, 2))
    spent = {0: 1.5, 1: 3.5, 2: 2.5}
    made = replace(made, models=tuple(replace(one, accounted_epsilon=one.epsilon * spent[one.seed]) for one in made.models))
    assert (made.accounted(1.0), made.accounted(8.0), made.accounted(2.0)) == (3.5, 28.0, None)
