"""Presets as questions: what they are grouped by, how long their runs take here, and the results that answer them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

from dpcl_core import presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.errors import unknown
from dpcl_core.methods import catalog as methods
from dpcl_core.papers import catalog, measured
from dpcl_core.papers.measured import Measured
from dpcl_core.papers.paper import Size
from dpcl_core.papers.run_names import run_name
from dpcl_core.presets import Preset, Shows
from dpcl_core.runs.audits import Audits
from dpcl_core.runs.durations import Work, work_of
from dpcl_core.runs.sets import Sets
from dpcl_core.runs.store import Store
from dpcl_core.spec import DataSpec, RunSpec

OWN = "At once"  # presets of no paper: small, for a first look
SHOWS: Mapping[Shows, str] = {
    "budgets": "What a budget costs",
    "forgetting": "What is forgotten",
    "streams": "The order and the limits of tasks",
    "labels": "What may be public",
    "adapting": "Adapting the network",
    "claims": "What a claimed budget is worth",
    "words": "Which words are private",
    "matching": "Matching what clients send",
    "no-privacy": "Without privacy",
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the presets that answer it, smallest first, by size ("small" for the only one).

    `group`: the title of its paper, or `OWN`; `title`: what it is about.
    """

    group: str
    title: str
    text: str
    forms: Mapping[Size, Preset]

    @property
    def smallest(self) -> Preset:
        return next(iter(self.forms.values()))

    @property
    def shows(self) -> str:
        """What its answer is about, one of `SHOWS`."""
        return SHOWS[self.smallest.shows]


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
            of_papers.append(Question(paper.title, experiment.title, experiment.question, forms))
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
    return presets.startable_variants(name)


@cache
def digests(name: str) -> tuple[str, ...]:
    """The digests of the settings of its runs, in their order."""
    return tuple(spec.digest() for spec in specs(name).values())


@cache
def titles(name: str) -> Mapping[str, str]:
    """The readers' name of every run of a preset, by label: its method's title where no other run has that method."""
    return named(specs(name))


def named(runs: Mapping[str, RunSpec]) -> dict[str, str]:
    """The same for these runs."""
    counts = Counter(spec.method for spec in runs.values())
    return {
        label: methods.card(spec.method).title if counts[spec.method] == 1 else run_name(label)
        for label, spec in runs.items()
    }


def duration(name: str, store: Store) -> Duration:
    """How long all runs of a preset take: from finished runs of this store, else from records and the preset."""
    return durations([name], store)[name]


def durations(names: Sequence[str], store: Store) -> dict[str, Duration]:
    """The same of several presets, by one look into the store."""
    here = iter(store.estimates([work for name in names for work in _work(name)]))
    seen = Sets(store).data_used()
    found = {}
    for name in names:
        ours = [*islice(here, len(_work(name)))]
        known = [seconds for seconds in ours if seconds is not None]
        is_here = len(known) == len(ours)
        first_time = not _with_features(name) <= seen
        found[name] = Duration(sum(known) if is_here else _elsewhere(name), is_here, first_time)
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
    """The results by label: of the newest finished run of the store with these settings, else the recorded ones."""
    runs = specs(name)
    ids = Sets(store).finished([spec.digest() for spec in runs.values()])
    found = {}
    for label, spec in runs.items():
        run_id, recorded = ids.get(spec.digest()), _recorded().get(spec.digest())
        if run_id is not None:
            found[label] = _with_audits(measured.of_run(store.get(run_id), store.events(run_id)), run_id, store)
        elif recorded is not None:
            found[label] = recorded
    return found


def recorded(runs: Mapping[str, RunSpec]) -> dict[str, Measured]:
    """The recorded results of runs, by label; runs without a record are left out."""
    known = _recorded()
    return {label: known[digest] for label, spec in runs.items() if (digest := spec.digest()) in known}


def n_answered(names: Sequence[str], store: Store) -> dict[str, tuple[int, int]]:
    """For each preset: how many of its runs finished here, and how many others are recorded."""
    wanted = {name: digests(name) for name in names}
    here = Sets(store).finished([digest for of in wanted.values() for digest in of])
    return {
        name: (sum(one in here for one in of), sum(one not in here and one in _recorded() for one in of))
        for name, of in wanted.items()
    }


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
    """The recorded results by digest of their settings."""
    return {run.spec.digest(): run for run in measured.all_recorded()}


def elsewhere(about: Preset, runs: Mapping[str, RunSpec]) -> float | None:
    """Seconds of all runs: the preset's own measurement, else the records', else the first run's times their number."""
    recorded = [_recorded().get(spec.digest()) for spec in runs.values()]
    if about.seconds_in_all is not None or len(recorded) == 1:
        return about.seconds_in_all if about.seconds_in_all is not None else about.seconds
    seconds = [one.seconds for one in recorded if one is not None]
    if len(seconds) == len(recorded):
        return sum(seconds)
    return None if about.seconds is None else about.seconds * len(recorded)


@cache
def _elsewhere(name: str) -> float | None:
    return elsewhere(presets.about(name), specs(name))


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
