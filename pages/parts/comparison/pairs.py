"""Comparability of runs, and the settings in which they differ. Pure: no streamlit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, cast

from dpcl_core.data.catalog import called
from dpcl_core.events import References
from dpcl_core.figures.picture import epsilons_text
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy.statement import Standing
from dpcl_core.spec import RunSpec
from pages.parts.shell import fields, setting_names

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run

MOST = 6  # runs side by side
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
        pair = f"{names[0]} and {name}"
        if first.data.dataset != other.data.dataset:
            return (
                f"{pair} were tested on different data ({called(first.data.dataset)}, {called(other.data.dataset)}): "
                "a difference in accuracy says nothing about the methods."
            )
        if first.data.test_per_class != other.data.test_per_class:
            return f"{pair} were tested on different subsets of {called(first.data.dataset)}: do not read small differences."
        if first.public_labels != other.public_labels:
            return f"{pair} had different classes: a difference in accuracy says nothing about the methods."
        if first.scenario != other.scenario:
            return f"{pair} had different streams: accuracy over tasks is not comparable between them."
    return None


def comparable(runs: Mapping[str, RunSpec]) -> tuple[str, str] | None:
    """The two runs that are compared best seed by seed, the first of several such pairs.

    They have the same test examples, streams, a seed and a budget in common, ε of the same standing, and differ in a
    setting. Two that share enough seeds for an interval come first; then two that share a finite budget before two that
    share none but ∞, which say nothing of privacy. None where no two can be compared.
    """
    from dpcl_core.figures.statistics import MIN_SEEDS

    best, found = (False, False), None
    for (first, one), (second, other) in combinations(runs.items(), 2):
        budgets, n_shared = shared_budgets([one, other]), len(set(one.seeds) & set(other.seeds))
        if one == other or not n_shared or not budgets or methods.standing(one) != methods.standing(other):
            continue
        rank = (n_shared >= MIN_SEEDS, math.isfinite(budgets[0]))
        if (found is None or rank > best) and different_tests({first: one, second: other}) is None:
            best, found = rank, (first, second)
            if all(rank):
                break
    return found


def with_enough_seeds(pair: Mapping[str, RunSpec]) -> dict[str, RunSpec]:
    """Those of two runs that must be run anew, with other seeds, for an interval of their difference; often empty."""
    from dpcl_core.figures.statistics import MIN_SEEDS

    seeds = max((spec.seeds for spec in pair.values()), key=len)
    if len(set.intersection(*(set(spec.seeds) for spec in pair.values()))) >= MIN_SEEDS:
        return {}
    wanted = seeds if len(seeds) >= MIN_SEEDS else tuple(range(MIN_SEEDS))
    return {name: spec.model_copy(update={"seeds": wanted}) for name, spec in pair.items() if spec.seeds != wanted}


def unequal_promises(standings: Mapping[str, Standing]) -> str | None:
    """A warning if the ε of the runs have different standings (proved, claimed, replay only, none); else None."""
    if len(set(standings.values())) < 2:
        return None
    claimed, of_replay, unbounded = (
        [name for name, kind in standings.items() if kind == wanted] for wanted in ("claimed", "replay", "none")
    )
    sentences = []
    if claimed:
        one = len(claimed) == 1
        sentences.append(
            f"The ε of {' and '.join(claimed)} {'is a claim' if one else 'are claims'} that no ledger supports: at the "
            f"same ε {'it promises' if one else 'they promise'} nothing, while the others hold."
        )
    if of_replay:
        sentences.append(
            f"The ε of {' and '.join(of_replay)} covers the replay only: the head is not private, and the run has no bound."
        )
    if unbounded:
        sentences.append(
            f"The ε of {' and '.join(unbounded)} is only what was asked for: labels read from the data have no bound."
        )
    return " ".join(sentences)


def shared_budgets(specs: Sequence[RunSpec]) -> list[float]:
    """The budgets shared by all runs, in ascending order."""
    return sorted(set.intersection(*(set(spec.privacy.epsilons) for spec in specs))) if specs else []


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
    flat = {name: _flat(spec) for name, spec in specs.items()}
    keys = list(dict.fromkeys(key for settings in flat.values() for key in settings))
    rows, n_equal = [], 0
    for key in keys:
        if len({settings.get(key, _NO_SETTING) for settings in flat.values()}) == 1:
            n_equal += 1
            continue
        owner = next(specs[name] for name, settings in flat.items() if key in settings)
        values = (_shown(key, settings.get(key, _NO_SETTING), specs[name]) for name, settings in flat.items())
        title = setting_names.title(key, owner.method, owner.scenario.kind)
        rows.append({"setting": title} | dict(zip(flat, values, strict=True)))
    return rows, n_equal


def what_differs(specs: Mapping[str, RunSpec]) -> str | None:
    """One line naming the settings in which runs of the same method and dataset differ; None if not applicable."""
    same = len({(spec.method, spec.data.dataset) for spec in specs.values()}) == 1
    rows, _ = differences(specs)
    if not same or not rows:
        return None
    parts = [f"{row['setting']} ({' / '.join(row[run] for run in specs)})" for row in rows[:_MAX_LISTED]]
    more = f" and {len(rows) - _MAX_LISTED} more" if len(rows) > _MAX_LISTED else ""
    return f"They differ in: {'; '.join(parts)}{more}."


def _flat(spec: RunSpec) -> dict[str, object]:
    """The settings by the name that files and commands have for them."""
    flat: dict[str, object] = {}
    for key, value in spec.model_dump().items():
        flat |= {f"{key}.{name}": inner for name, inner in value.items()} if isinstance(value, Mapping) else {key: value}
    return flat


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
    setting = setting_names.setting_of(key, spec.method, kind)
    if setting is not None and value in setting.options:
        return fields.option_title(str(value))
    return setting_names.options(key, kind).get(str(value), str(value))
