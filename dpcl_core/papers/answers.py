"""The answer to a question from the results of its runs: all of them in one picture, and as a table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING

from dpcl_core import paths, presets
from dpcl_core.data import catalog as datasets
from dpcl_core.events import References
from dpcl_core.figures.picture import Picture, epsilon_text, minus
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import ceilings
from dpcl_core.papers.measured import Measured
from dpcl_core.privacy.statement import Standing, at_least, shown
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    import pandas as pd

MEANINGS = (
    ("Accounted", "ε is at most this, added up from every release the run recorded."),
    ("Only claimed", "the paper's number, which nothing here proves."),
    ("Audited", "ε is at least this, shown by an attack; a dash means none was made."),
)
RECORD = "references.json"
_MEANING = {"bound": "accounted", "claimed": "only claimed", "replay": "of the replay alone", "none": "asked for, no bound"}


def scores(found: Mapping[str, Measured], titles: Mapping[str, str], metric: str = "AA") -> pd.DataFrame:
    """Final scores, or another metric: columns run (its readers' name), epsilon, seed, value. Both arguments by label."""
    import pandas as pd

    rows = [
        (titles[label], model.epsilon, model.seed, value)
        for label, run in found.items()
        for model in sorted(run.models, key=lambda model: (model.epsilon, model.seed))
        if (value := model.value(metric)) is not None
    ]
    return pd.DataFrame(rows, columns=["run", "epsilon", "seed", "value"])


def picture(
    spec: RunSpec, found: Mapping[str, Measured], titles: Mapping[str, str], references: References, *,
    with_forgetting: bool = False, dark: bool = False,
) -> Picture:  # fmt: skip
    """All results between their references. `spec`: the first run's; `with_forgetting`: the finding says what was lost."""
    from dpcl_core.figures import answer

    return answer.picture(
        scores(found, titles), score=datasets.score(spec.data.dataset), references=references, dark=dark,
        standings=_standings(found, titles), audited=_audited(found, titles),
        forgetting=scores(found, titles, "AF") if with_forgetting else None,
    )  # fmt: skip


def finding(
    spec: RunSpec, found: Mapping[str, Measured], titles: Mapping[str, str], *, with_forgetting: bool = False
) -> str:
    """The finding of `picture`, with its uncertainty."""
    from dpcl_core.figures import answer

    return answer.finding(
        scores(found, titles), score=datasets.score(spec.data.dataset), standings=_standings(found, titles),
        forgetting=scores(found, titles, "AF") if with_forgetting else None,
    )  # fmt: skip


def _standings(found: Mapping[str, Measured], titles: Mapping[str, str]) -> dict[str, Standing]:
    return {titles[label]: methods.standing(run.spec) for label, run in found.items()}


def _audited(found: Mapping[str, Measured], titles: Mapping[str, str]) -> dict[tuple[str, float], float]:
    return {
        (titles[label], model.epsilon): bound
        for label, run in found.items()
        for model in run.models
        if (bound := run.audited(model.epsilon)) is not None
    }


def heads(*, with_forgetting: bool) -> tuple[str, ...]:
    """The heads of `rows`."""
    heads = ("run", "what its ε is", "ε asked", "ε accounted", "ε audited", "score, %")
    return (*heads, "forgotten, points") if with_forgetting else heads


def rows(title: str, run: Measured, *, with_forgetting: bool) -> list[tuple[str, ...]]:
    """One row per budget of a run, under `heads`. Forgotten, in points: mean loss of the earlier tasks since their best."""
    found: list[tuple[str, ...]] = []
    kind = methods.standing(run.spec)
    for epsilon in sorted({model.epsilon for model in run.models}):
        spent = max(model.accounted_epsilon for model in run.models if model.epsilon == epsilon)
        means = [_mean(run, epsilon, metric) for metric in ("AA", *(["AF"] * with_forgetting))]
        meaning = "no noise" if math.isinf(epsilon) else _MEANING[kind]
        bound = run.audited(epsilon)
        audited = "–" if bound is None else f"≥ {at_least(bound)}"
        found.append((title, meaning, epsilon_text(epsilon), shown(spent), audited, *means))
    return found


def _mean(run: Measured, epsilon: float, metric: str) -> str:
    """The mean over seeds, in hundredths of the metric; a dash where it is unknown."""
    values = list(run.by_seed(epsilon, metric).values())
    return minus(f"{100 * fmean(values):.1f}") if values else "–"


def with_untrained(known: References, spec: RunSpec, found: Mapping[str, Measured]) -> References:
    """The references with the untrained network's score that a run on the same data measured, if they have none."""
    measured = (run.untrained for run in found.values() if run.spec.data == spec.data and run.untrained is not None)
    return known if known.untrained is not None else replace(known, untrained=next(measured, None))


def has_references(preset: str) -> bool:
    """Whether chance and the untrained network of a preset were recorded where its data were."""
    return preset in _references()


def recorded_references(preset: str, spec: RunSpec, found: Mapping[str, Measured]) -> References:
    """Chance and the untrained network as recorded where the data were, with the recorded ceiling; no data are read.

    `spec`: the preset's first run. Raises KeyError for a preset without a record (`scripts/record_references.py`).
    """
    known = _references()[preset]
    references = References(known["chance"] or 0.0, known["untrained"], ceiling=ceilings.known(spec))
    return with_untrained(references, spec, found)


def recorded_chances(preset: str, specs: Mapping[str, RunSpec]) -> dict[str, float]:
    """What guessing gives, in [0, 1], by label: for the runs that are tested as the preset's first run is.

    Chance was recorded for that one. It follows from the test data, their tasks, and the labels that may be given.
    """
    known = _references().get(preset, {}).get("chance")
    if known is None:
        return {}
    first = ceilings.tested_on(next(iter(presets.variants(preset).values())))
    return {label: known for label, spec in specs.items() if ceilings.tested_on(spec) == first}


def no_ceiling(spec: RunSpec) -> str:
    """A sentence on why a recorded run of all tasks at once is no ceiling here; empty where there is none, or it is one."""
    refused = ceilings.refused(spec)
    if refused is None:
        return ""
    reached, higher = (f"{100 * value:.1f} %" for value in refused)
    return (
        f"No ceiling is known: the recorded run that learns all tasks at once without noise ends at {reached}, though "
        f"the records of the same tasks reach {higher}. So it did not learn what can be learned."
    )


def references_beside(
    preset: str, specs: Mapping[str, RunSpec], found: Mapping[str, Measured], metric: str
) -> References | None:
    """The recorded references of a figure of this metric; None where there is no record, or they say nothing of it.

    `specs` and `found`: the preset's runs and their results, by label. Guessing has a known accuracy after the last task
    alone.
    """
    if metric != "AA" or preset not in _references():
        return None
    return recorded_references(preset, next(iter(specs.values())), found)


@cache
def _references() -> Mapping[str, Mapping[str, float | None]]:
    path = paths.assets_dir() / "reproduction" / RECORD
    found: dict[str, dict[str, float | None]] = json.loads(path.read_text(encoding="utf-8"))
    return found
