"""Comparability of runs, the settings in which they differ, and the ε that a wanted accuracy needs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import cast

import pandas as pd
import streamlit as st

from dpcl_core.data.catalog import called
from dpcl_core.events import References
from dpcl_core.fields import flat
from dpcl_core.figures import statistics, tradeoff
from dpcl_core.figures.picture import Provenance, epsilons_text
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import Standing
from dpcl_core.runs.run import Run
from dpcl_core.spec import RunSpec
from pages.parts import fields as parts_fields
from pages.parts import figure_card, link, text
from pages.parts.state import View
from pages.parts.text import capital

LETTERS = tuple("ABCDEF")  # of runs side by side
MOST = len(LETTERS)
_ALIKE = 5e-4  # levels that print alike
_MAX_LISTED = 3  # differing settings that fit on one line
_NO_SETTING = "not a setting here"
_ALL_WITHOUT = ("data.train_per_class", "data.train_per_source", "data.test_per_class", "public_labels")  # a value


def has_result(run: Run) -> bool:
    """Whether a run can be compared: it has finished, and its settings can be read."""
    return run.status == "finished" and run.readable_spec is not None


def no_result(run: Run) -> str:
    """Why a run has none, as a sentence."""
    if run.status == "finished":
        return f"The settings of run “{run.name}” can no longer be read, so it cannot be compared."
    so_far = {"cancelled": "was cancelled", "failed": "failed", "lost": "was lost", "queued": "is still queued"}
    return f"Run “{run.name}” {so_far.get(run.status, 'has not finished yet')}; only finished runs can be compared."


def different_tests(specs: Mapping[str, RunSpec]) -> str | None:
    """A sentence if the runs were not tested on the same examples in the same tasks; else None."""
    names = list(specs)
    for name in names[1:]:
        first, other = specs[names[0]], specs[name]
        data, its_data = called(first.data.dataset), called(other.data.dataset)
        nothing = "a difference in accuracy says nothing about the methods."
        for is_other, said in (
            (first.data.dataset != other.data.dataset, f"were tested on different data ({data}, {its_data}): {nothing}"),
            (first.data.test_per_class != other.data.test_per_class,
             f"were tested on different subsets of {data}: do not read small differences."),
            (first.public_labels != other.public_labels, f"had different classes: {nothing}"),
            (first.scenario != other.scenario, "had different streams: accuracy over tasks is not comparable between them."),
        ):  # fmt: skip
            if is_other:
                return f"{names[0]} and {name} {said}"
    return None


def comparable(runs: Mapping[str, RunSpec]) -> tuple[str, str] | None:
    """The two runs that are compared best seed by seed, the first of several such pairs.

    They have the same test examples, streams, a seed and a budget in common, ε of the same standing, and differ in a
    setting. Two that share enough seeds for an interval come first; then two that share a finite budget before two that
    share none but ∞, which say nothing of privacy. None where no two can be compared.
    """
    best, found, names = (False, False), None, dict[RunSpec, str]()
    for name, spec in runs.items():
        names.setdefault(spec, name)  # of equal runs the first
    known = [(spec, {*spec.seeds}, {*spec.privacy.epsilons}, methods.standing(spec)) for spec in names]
    for (one, seeds, budgets, kind), (other, its_seeds, its_budgets, its_kind) in combinations(known, 2):
        n_shared, shared = len(seeds & its_seeds), budgets & its_budgets
        if not n_shared or not shared or kind != its_kind:
            continue
        first, second, rank = names[one], names[other], (n_shared >= statistics.MIN_SEEDS, math.isfinite(min(shared)))
        if (found is None or rank > best) and different_tests({first: one, second: other}) is None:
            best, found = rank, (first, second)
            if all(rank):
                break
    return found


def with_enough_seeds(pair: Mapping[str, RunSpec]) -> dict[str, RunSpec]:
    """Those of two runs that must be run anew, with other seeds, for an interval of their difference; often empty."""
    seeds = max((spec.seeds for spec in pair.values()), key=len)
    if len(set.intersection(*(set(spec.seeds) for spec in pair.values()))) >= statistics.MIN_SEEDS:
        return {}
    wanted = seeds if len(seeds) >= statistics.MIN_SEEDS else tuple(range(statistics.MIN_SEEDS))
    return {name: replace(spec, seeds=wanted) for name, spec in pair.items() if spec.seeds != wanted}


def unequal_promises(standings: Mapping[str, Standing]) -> str | None:
    """A warning if the ε of the runs have different standings (proved, claimed, replay only, none); else None."""
    if len(set(standings.values())) < 2:
        return None
    one = list(standings.values()).count("claimed") == 1
    sentences: dict[Standing, str] = {
        "claimed": f"{'is a claim' if one else 'are claims'} that no ledger supports: at the same ε "
        f"{'it promises' if one else 'they promise'} nothing, while the others hold.",
        "replay": "covers the replay only: the head is not private, and the run has no bound.",
        "none": "is only what was asked for: labels read from the data have no bound.",
    }
    of_kind = {kind: " and ".join(name for name, its in standings.items() if its == kind) for kind in sentences}
    return " ".join(f"The ε of {of_kind[kind]} {said}" for kind, said in sentences.items() if of_kind[kind])


def shared_references(references: Sequence[References]) -> References | None:
    """The levels that all runs share; None if not even chance is the same."""
    first = references[0]

    def shared(levels: Sequence[float | None]) -> float | None:
        known = [level for level in levels if level is not None]
        return known[0] if len(known) == len(references) and max(known) - min(known) < _ALIKE else None

    if shared([one.chance for one in references]) is None:
        return None
    untrained, ceiling = ([getattr(one, name) for one in references] for name in ("untrained", "ceiling"))
    return replace(first, untrained=shared(untrained), ceiling=shared(ceiling))


def differences(specs: Mapping[str, RunSpec]) -> tuple[list[dict[str, str]], int]:
    """One row per differing setting, named as on Train, with a column per run; and the number of equal settings."""
    known = {name: flat(asdict(spec)) for name, spec in specs.items()}
    rows, keys = [], list(dict.fromkeys(key for settings in known.values() for key in settings))
    for key in keys:
        if len({settings.get(key, _NO_SETTING) for settings in known.values()}) == 1:
            continue
        owner = next(specs[name] for name, settings in known.items() if key in settings)
        values = (_shown(key, settings.get(key, _NO_SETTING), specs[name]) for name, settings in known.items())
        title = parts_fields.title(key, owner.method, owner.scenario.kind)
        rows.append({"setting": title} | dict(zip(known, values, strict=True)))
    return rows, len(keys) - len(rows)


def what_differs(specs: Mapping[str, RunSpec]) -> str | None:
    """One line naming the settings in which runs of the same method and dataset differ; None if not applicable."""
    same = len({(spec.method, spec.data.dataset) for spec in specs.values()}) == 1
    rows, _ = differences(specs)
    if not same or not rows:
        return None
    parts = [f"{row['setting']} ({' / '.join(row[run] for run in specs)})" for row in rows[:_MAX_LISTED]]
    more = f" and {len(rows) - _MAX_LISTED} more" if len(rows) > _MAX_LISTED else ""
    return f"They differ in: {'; '.join(parts)}{more}."


def _shown(key: str, value: object, spec: RunSpec) -> str:
    """A setting's value in the words of the form on Train."""
    if value is None:
        return "all" if key in _ALL_WITHOUT else "automatic"
    if isinstance(value, bool):
        return "on" if value else "off"
    if key == "data.dataset":
        return called(str(value))
    if key == "privacy.epsilons":
        return epsilons_text(cast("tuple[float, ...]", value))
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return "∞" if math.isinf(value) else f"{value:g}"
    kind = spec.scenario.kind
    setting = parts_fields.setting_of(key, spec.method, kind)
    if setting is not None and value in setting.options:
        return parts_fields.option_title(str(value))
    return parts_fields.options(key, kind).get(str(value), str(value))


# Which ε do I need: a wanted accuracy, and the smallest ε that reached it, with the uncertainty that seeds leave.


TITLE = "Which ε do I need?"
FIELD = link.Field("wanted", "want", "wanted accuracy in percent", link.Maybe(link.Whole(1, 100)), None)
NO_BOUND = "The list of labels is read from the data: no ε bounds that, so none is enough."
NO_BUDGET = "No finite ε, so there is nothing to choose from."


@dataclass(frozen=True)
class Budgets:
    """Final scores of one run in [0, 1], by ε and seed, and what its ε are.

    `accounted`: what the ledger adds up to, by requested ε; empty where it is as requested.
    """

    finals: Mapping[float, Sequence[float]]
    standing: Standing = "bound"
    accounted: Mapping[float, float] = field(default_factory=dict)


def panel(
    view: View, runs: Mapping[str, Budgets], *, colours: Sequence[str], provenance: Provenance, score: str = "accuracy"
) -> None:
    """Draws the question and its answer for each run; the link gets the wanted score in percent."""
    usual = (tradeoff.needed(run.finals, 0.0) for run in runs.values())
    best = max((answer.means[-1] for answer in usual if answer is not None), default=None)
    if best is None:
        st.info(NO_BUDGET)
        return
    linked = view["wanted"]
    start = linked if linked is not None else max(1, min(100, round(90 * best)))  # nine tenths of the best
    wanted = st.number_input(
        f"Wanted {score} (%)", 1, 100, start, key=view.key("wanted"), width=220,
        help="Mean over the tasks after the last one, and over seeds.",
    )  # fmt: skip
    view.values["wanted"] = wanted if wanted != start or linked is not None else None
    found = {name: tradeoff.needed(run.finals, wanted / 100) for name, run in runs.items()}
    answers = {name: answer for name, answer in found.items() if answer is not None}
    sentences = [
        tradeoff.sentence(answer, score=score, standing=runs[name].standing, accounted=runs[name].accounted)
        for name, answer in answers.items()
    ]
    chosen = [colour for name, colour in zip(runs, colours, strict=True) if name in answers]
    picture = tradeoff.figure(answers, sentences, colours=chosen, score=score, dark=text.is_dark())
    rows = [
        (name, epsilon, mean, *((low, high) if answer.ends is not None else (None, None)))
        for name, answer in answers.items()
        for epsilon, mean, low, high in zip(answer.budgets, answer.means, *(answer.ends or (answer.means,) * 2), strict=True)
    ]
    figure_card.show(
        picture, provenance, key="needed", title=f"{capital(score)} by ε",
        note="diamond: the ε that is needed; bar through it: what the 95 % intervals over seeds allow",
        table=pd.DataFrame(rows, columns=["run", "epsilon", "mean", "low", "high"]), linked=True,
    )  # fmt: skip
    st.caption(text.WORDS["comparison"]["how"])
