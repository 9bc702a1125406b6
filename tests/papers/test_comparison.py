"""Rows pair what belongs together, keep what has no partner, and form no difference that means nothing."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from dpcl_core import checks, presets
from dpcl_core.errors import BadInput
from dpcl_core.papers import catalog, claims, comparison, measured, other_data, report
from dpcl_core.papers.paper import Paper
from dpcl_core.spec import RunSpec
from tests.papers.making import run
from tests.support.full_disk import no_room

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
    assert unprinted.printed is None
    assert unprinted.ours is not None
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
    assert {name: row.layer for name, row in ours.items()} == {
        "CSLR (as printed)": "as printed",
        "CSLR (made to work)": "made to work",
    }
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
    assert "EfficientNet-Lite0, trained on ImageNet, instead of a ViT-B/16" in said
    assert "Data: Digits" in said
    assert "Tuning: the learning rate alone, on public data" in said
    assert "Epochs" not in said
    fewer = checks.parse(checks.apply_sets(presets.raw("paper-split-cifar-100-small"), ["params.epochs=5", "tuned=no"]))
    said = " ".join(_reasons(run(lambda epsilon, seed: 0.5, spec=fewer)))
    assert "Epochs: 5" in said
    assert "Tuning: none" in said
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
    with pytest.raises(BadInput, match="must be a file that `reproduce --record` wrote"):
        measured.read_measured(tmp_path / "x.json")


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
