"""Presets as questions: what they are grouped by, how long their runs take here, and the results that answer them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from statistics import fmean
from typing import Any, cast

from dpcl_core import paths, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import unknown
from dpcl_core.events import References
from dpcl_core.figures import answer
from dpcl_core.figures.picture import Picture, epsilon_text, minus
from dpcl_core.later import pd
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import catalog, measured
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Size
from dpcl_core.privacy.statement import at_least, shown_number
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.run import Work, work_of
from dpcl_core.runs.shards import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import DataSpec, RunSpec

# What a preset's runs are called on screen, by the labels of its file: `assets/run_names.toml`.


_NUMBER = r"(\d+(?:\.\d+)?)"


def run_name(label: str) -> str:
    """The words for a run's label: a known beginning with any number of known endings; the label itself if it has none."""
    beginnings, endings = _patterns()
    if (whole := _words(label, beginnings)) is not None:
        return whole
    for place in (found.start() for found in re.finditer("-", label)):  # the first that fits has the longest ending
        name, rest = run_name(label[:place]), _endings(label[place + 1 :], endings)
        if rest and name != label[:place]:
            return ", ".join(filter(None, [name, *rest]))
    return label


def _endings(text: str, patterns: _Patterns) -> list[str]:
    """The words of an ending, or of several joined by hyphens; empty where there is one that is not known."""
    if (words := _words(text, patterns)) is not None:
        return [words]
    for place in (found.start() for found in re.finditer("-", text)):
        first, rest = _words(text[:place], patterns), _endings(text[place + 1 :], patterns)
        if first is not None and rest:
            return [first, *rest]
    return []


_Patterns = tuple[tuple[re.Pattern[str], str], ...]


def _words(text: str, patterns: _Patterns) -> str | None:
    for pattern, words in patterns:
        if found := pattern.fullmatch(text):
            for number in found.groups():
                words = words.replace("#", number, 1)
            return words
    return None


@cache
def _patterns() -> tuple[_Patterns, _Patterns]:
    """Beginnings and endings, each a pattern with its words."""
    table = paths.asset_table("run_names.toml")
    beginnings, endings = (
        tuple((re.compile(re.escape(label).replace("NUMBER", _NUMBER)), words) for label, words in table[name].items())
        for name in ("beginnings", "endings")
    )
    return beginnings, endings


OWN = "At once"  # presets of no paper: small, for a first look


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the presets that answer it, smallest first, by size ("small" for the only one).

    `group`: the title of its paper, or `OWN`; `title`: what it is about; `paper` and `experiment`: their names, where it
    belongs to a paper.
    """

    group: str
    title: str
    text: str
    forms: Mapping[Size, presets.Preset]
    paper: str | None = None
    experiment: str = ""

    @property
    def smallest(self) -> presets.Preset:
        return next(iter(self.forms.values()))

    @property
    def name(self) -> str:
        """Of its experiment, else of its only preset."""
        return self.smallest.name if self.paper is None else self.experiment

    def size_of(self, preset: str) -> Size:
        """The size of the form that this preset is. Raises StopIteration if it is none of its forms."""
        return next(size for size, form in self.forms.items() if form.name == preset)

    @property
    def asked(self) -> str:
        """What it asks, in at most eight words."""
        return self.title if self.paper is None else self.text


@dataclass(frozen=True, slots=True)
class Duration:
    """Expected seconds of all runs of a preset on the processor. `is_here`: measured here, for each of them; else elsewhere.

    `first_time`: whether features of its data are still to be computed, as far as the store's runs show: its finished runs
    have none on these data.
    """

    seconds: float | None
    is_here: bool
    first_time: bool


@cache
def questions() -> tuple[Question, ...]:
    """All questions: those for a first look, then paper by paper."""
    of_papers: list[Question] = []
    for paper in catalog.PAPERS.values():
        for experiment in paper.experiments:
            forms = {size: presets.about(experiment.preset(size)) for size in experiment.sizes}
            of_papers.append(
                Question(paper.title, experiment.title, experiment.question, forms, paper.name, experiment.name)
            )
    taken = {form.name for question in of_papers for form in question.forms.values()}
    own = [presets.about(name) for name in presets.names() if name not in taken]
    return (*(Question(OWN, one.title, one.question, {"small": one}) for one in own), *of_papers)


def of_preset(name: str) -> Question:
    """The question that a preset belongs to. Raises BadInput naming the known presets."""
    for question in questions():
        if any(form.name == name for form in question.forms.values()):
            return question
    raise unknown("question", name, presets.names())


@cache
def specs(name: str) -> Mapping[str, RunSpec]:
    """Every run of a preset by its label, with the networks that this computer had when the process began."""
    return presets.variants(name, here=True)


@cache
def digests(name: str) -> tuple[str, ...]:
    """The digests of the settings of its runs, in their order."""
    return tuple(spec.digest() for spec in specs(name).values())


@cache
def titles(name: str) -> Mapping[str, str]:
    """The readers' name of every run of a preset, by label: its method's title where no other run has that method."""
    return question_names(specs(name))


def question_names(runs: Mapping[str, RunSpec]) -> dict[str, str]:
    """The same for these runs."""
    counts = Counter(spec.method for spec in runs.values())
    return {
        label: methods.card(spec.method).title if counts[spec.method] == 1 else run_name(label)
        for label, spec in runs.items()
    }


def durations(names: Sequence[str], store: Store) -> dict[str, Duration]:
    """How long all runs of each preset take: from finished runs of this store, else from records and the preset."""
    here = iter(store.estimates([work for name in names for work in _work(name)]))
    seen = Sets(store).data_used()
    found = {}
    for name in names:
        ours = [*islice(here, len(_work(name)))]
        known = [seconds for seconds in ours if seconds is not None]
        seconds = sum(known) if len(known) == len(ours) else elsewhere(presets.about(name), specs(name))
        found[name] = Duration(seconds, len(known) == len(ours), not _with_features(name) <= seen)
    return found


def cheapest_first(runs: Mapping[str, RunSpec], store: Store, device: str) -> dict[str, RunSpec]:
    """The runs in order of expected duration: in this store, else as recorded; unknown ones last, in their own order."""
    here = store.estimates([work_of(spec) for spec in runs.values()], device=device)
    cost = {}
    for (label, spec), seconds in zip(runs.items(), here, strict=True):
        recorded = _recorded().get(spec.digest())
        known = seconds if seconds is not None else None if recorded is None else recorded.seconds
        cost[label] = float("inf") if known is None else known
    return {label: runs[label] for label in sorted(runs, key=cost.__getitem__)}


def results(name: str, store: Store) -> dict[str, Measured]:
    """The results by label: of the newest finished run of the store with these settings, else the recorded ones.

    With the models of seeds that were added to them (`further`).
    """
    runs = specs(name)
    ids = Sets(store).finished([*digests(name), *(one.digest() for one in further(name).values())])
    found = {}
    for label, spec in runs.items():
        run_id, recorded = ids.get(spec.digest()), _recorded().get(spec.digest())
        if run_id is not None:
            found[label] = _with_audits(measured.measured_run(store.get(run_id), store.events(run_id)), run_id, store)
        elif recorded is not None:
            found[label] = recorded
        more_id = ids.get(further(name)[label].digest())
        if more_id is not None and label in found and found[label].edition == measured.EDITION:
            added = measured.measured_run(store.get(more_id), store.events(more_id))
            found[label] = replace(found[label], models=(*found[label].models, *added.models))
    return found


@cache
def further(name: str) -> Mapping[str, RunSpec]:
    """By label the run that adds the next two seeds to those of a preset: once, as who looks often decides by chance."""
    return {label: replace(spec, seeds=(max(spec.seeds) + 1, max(spec.seeds) + 2)) for label, spec in specs(name).items()}


def lacking_seeds(name: str, labels: Collection[str], found: Mapping[str, Measured]) -> dict[str, RunSpec]:
    """The runs of `further` for those of these labels that have no seeds added yet; `found`: as `results` gives them.

    Empty where one of them has no result, or one of an older edition, to which none are added.
    """
    if any(label not in found or found[label].edition != measured.EDITION for label in labels):
        return {}
    added = {label for label in labels if {model.seed for model in found[label].models} - {*specs(name)[label].seeds}}
    return {label: further(name)[label] for label in specs(name) if label in labels and label not in added}


def recorded(runs: Mapping[str, RunSpec]) -> dict[str, Measured]:
    """The recorded results of runs, by label; runs without a record are left out."""
    known = _recorded()
    return {label: known[digest] for label, spec in runs.items() if (digest := spec.digest()) in known}


def _with_audits(run: Measured, run_id: str, store: Store) -> Measured:
    """The run with the lower bounds of the audits that were started on it, where they exceed its own."""
    bounds: dict[float, float] = {}
    for audit in Audits(store).of_run(run_id):
        for one in audit.results:
            bounds[one.claimed] = max(one.lower_bound, bounds.get(one.claimed, 0.0))
    models = [
        replace(model, audited_epsilon=max(bounds[model.epsilon], model.audited_epsilon or 0.0))
        if model.epsilon in bounds
        else model
        for model in run.models
    ]
    return replace(run, models=tuple(models))


@cache
def _recorded() -> Mapping[str, Measured]:
    """The recorded results by digest of their settings: of all papers, and of the questions that belong to none."""
    return {run.spec.digest(): run for run in (*measured.recorded(measured.OWN), *measured.all_recorded())}


def elsewhere(about: presets.Preset, runs: Mapping[str, RunSpec]) -> float | None:
    """Seconds of all runs: the preset's own measurement, else the records', else the first run's times their number."""
    recorded = [_recorded().get(spec.digest()) for spec in runs.values()]
    if about.seconds_in_all is not None or len(recorded) == 1:
        return about.seconds_in_all if about.seconds_in_all is not None else about.seconds
    seconds = [one.seconds for one in recorded if one is not None]
    if len(seconds) == len(recorded):
        return sum(seconds)
    return None if about.seconds is None else about.seconds * len(recorded)


@cache
def _work(name: str) -> tuple[Work, ...]:
    return tuple(work_of(spec) for spec in specs(name).values())


@cache
def _with_features(name: str) -> frozenset[DataSpec]:
    """The data of its runs of which a network computes features that are kept."""
    return frozenset(
        spec.data for spec in specs(name).values()
        if spec.data.backbone != "pixels" and not backbones.card(spec.data.backbone).is_language_model
    )  # fmt: skip


# The answer to a question from the results of its runs: all of them in one picture, and as a table.


MEANINGS = (
    ("Accounted", "ε is at most this, added up from every release the run recorded."),
    ("Only claimed", "the paper's number, which nothing here proves."),
    ("Audited", "ε is at least this, shown by an attack; a dash means none was made."),
)
RECORD = "references.json"
AMOUNTS: Mapping[str, str] = {
    "AF": "forgotten of the earlier tasks", "exposure": "of a planted code readable from the model",
    "audited": "shown at least by an attack", "Avg": "accuracy along the way", "pooled": "accuracy on all examples",
    "found": "private tokens found", "agreement": "agreement of matched entries (adjusted Rand index)",
}  # fmt: skip
_MEANING = {"bound": "accounted", "claimed": "only claimed", "replay": "of the replay alone", "none": "asked for, no bound"}


def scores(found: Mapping[str, Measured], titles: Mapping[str, str], metric: str = "AA") -> pd.DataFrame:
    """Final scores, or another metric: columns run (its readers' name), epsilon, seed, value. Both arguments by label."""
    rows = [
        (titles[label], model.epsilon, model.seed, value)
        for label, run in found.items()
        for model in sorted(run.models, key=lambda model: (model.epsilon, model.seed))
        if (value := model.value(metric)) is not None
    ]
    return pd.DataFrame(rows, columns=["run", "epsilon", "seed", "value"])


def picture(
    spec: RunSpec, found: Mapping[str, Measured], titles: Mapping[str, str], references: References, *,
    metric: str = "AA", with_forgetting: bool = False, dark: bool = False,
) -> Picture:  # fmt: skip
    """All results in a metric; final scores stand between their references. `spec`: the first run's.

    `with_forgetting`: the finding says what was lost, too.
    """
    audited = {
        (titles[label], model.epsilon): bound
        for label, run in found.items()
        for model in run.models
        if (bound := run.audited(model.epsilon)) is not None
    }
    options = _options(spec, found, titles, with_forgetting=with_forgetting)
    table, known = scores(found, titles, metric), references if metric == "AA" else None
    amount = None if metric == "AA" else answer.Amount(AMOUNTS.get(metric, metric), measured.unit(metric))
    return answer.picture(table, references=known, dark=dark, audited=audited, amount=amount, **options)


def finding(
    spec: RunSpec, found: Mapping[str, Measured], titles: Mapping[str, str], *, with_forgetting: bool = False
) -> str:
    """The finding of `picture` for final scores, with its uncertainty."""
    return answer.finding(scores(found, titles), **_options(spec, found, titles, with_forgetting=with_forgetting))


def _options(
    spec: RunSpec, found: Mapping[str, Measured], titles: Mapping[str, str], *, with_forgetting: bool
) -> dict[str, Any]:
    """What a figure and its finding say of the numbers: the score, the kinds of budgets, and what was forgotten."""
    standings = {titles[label]: methods.standing(run.spec) for label, run in found.items()}
    forgetting = scores(found, titles, "AF") if with_forgetting else None
    return {"score": datasets.score(spec.data.dataset), "standings": standings, "forgetting": forgetting}


def heads(*, with_forgetting: bool) -> tuple[str, ...]:
    """The heads of `rows`."""
    heads = ("run", "what its ε is", "ε asked", "ε accounted", "ε audited", "score, %")
    return (*heads, "forgotten, points") if with_forgetting else heads


def rows(title: str, run: Measured, *, with_forgetting: bool) -> list[tuple[str, ...]]:
    """One row per budget of a run, under `heads`. Forgotten, in points: mean loss of the earlier tasks since their best."""
    found: list[tuple[str, ...]] = []
    for epsilon in sorted({model.epsilon for model in run.models}):
        spent = max(model.accounted_epsilon for model in run.models if model.epsilon == epsilon)
        means = [_mean(run, epsilon, metric) for metric in ("AA", *(["AF"] * with_forgetting))]
        meaning = "no noise" if math.isinf(epsilon) else _MEANING[methods.standing(run.spec)]
        bound = run.audited(epsilon)
        audited = "–" if bound is None else f"≥ {at_least(bound)}"
        found.append((title, meaning, epsilon_text(epsilon), shown_number(spent), audited, *means))
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
    return with_untrained(References(known["chance"] or 0.0, known["untrained"], ceiling=measured.known(spec)), spec, found)


def recorded_chances(preset: str, specs: Mapping[str, RunSpec]) -> dict[str, float]:
    """What guessing gives, in [0, 1], by label: for the runs that are tested as the preset's first run is.

    Chance was recorded for that one. It follows from the test data, their tasks, and the labels that may be given.
    """
    known = recorded_chance(preset)
    return {} if known is None else chances(known, presets.variants(preset), specs)


def chances(known: float | None, of: Mapping[str, RunSpec], specs: Mapping[str, RunSpec]) -> dict[str, float]:
    """The same by what is `known` of the first run `of` a preset or another set of runs; empty where nothing is."""
    if known is None:
        return {}
    first = measured.tested_on(next(iter(of.values())))
    return {label: known for label, spec in specs.items() if measured.tested_on(spec) == first}


def recorded_chance(name: str) -> float | None:
    """What guessing gives, in [0, 1], as recorded for the first run of a preset, or of an experiment on other data."""
    return _references().get(name, {}).get("chance")


def no_ceiling(spec: RunSpec) -> str:
    """A sentence on why a recorded run of all tasks at once is no ceiling here; empty where there is none, or it is one."""
    refused = measured.refused(spec)
    if refused is None:
        return ""
    reached, higher = (f"{100 * value:.1f} %" for value in refused)
    return (
        f"No ceiling is known: the recorded run that learns all tasks at once without noise ends at {reached}, though "
        f"the records of the same tasks reach {higher}. So it did not learn what can be learned."
    )


@cache
def _references() -> Mapping[str, Mapping[str, float | None]]:
    found = json.loads((paths.assets_dir() / "reproduction" / RECORD).read_text(encoding="utf-8"))
    return cast("dict[str, dict[str, float | None]]", found)
