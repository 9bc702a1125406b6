"""Scores between which a run is read, before it has learned anything: chance, and the public network untrained."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.backbones import catalog as backbones
from dpcl_core.backbones import extractor
from dpcl_core.data import catalog as datasets
from dpcl_core.data.texts import Texts
from dpcl_core.errors import BadInput
from dpcl_core.events import Planned, References
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common import given_lists
from dpcl_core.methods.common.classifier import zero_shot
from dpcl_core.methods.common.dpsgd import each_task
from dpcl_core.methods.common.method import Answering, Learner, PublicSizes
from dpcl_core.privacy import budgets, labels
from dpcl_core.privacy.dp_events import dp
from dpcl_core.privacy.ledger import Ledger, joint_release, ledger_entries
from dpcl_core.privacy.noise_forecast import COSTLY, NoiseForecast
from dpcl_core.privacy.sums import unit_rows
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.stream import Task, TaskStream
from dpcl_core.spec import Cell, RunSpec


def before_training(spec: RunSpec, streams: Sequence[TaskStream], public: Sequence[int], device: str) -> References:
    """Chance and, unless a language model has to be opened first, the score of the public network that has learned nothing.

    An encoder of texts finds labels by their meaning: a text gets the label whose name has the largest cosine with it among
    the labels that compete. A network of pictures, of single words, or one that is trained with its last layer, has never
    heard of the labels and can only guess: its score is chance. None without a pretrained network. Reads no training
    example. `public`: indices of the public labels.
    """
    is_given = spec.params.is_task_given
    known = References(scenarios.chance(streams, public, is_task_given=is_given), n_tested=scenarios.n_tested(streams))
    if datasets.card(spec.data.dataset).kind != "text" or spec.params.inputs == "images":
        return _guessing(known, spec)
    if backbones.card(spec.data.backbone).is_language_model:
        return known
    names = [name.replace("_", " ") for name in streams[0].classes]
    directions = unit_rows(extractor.features(spec.data.backbone, Texts(names), device))

    def nearest(task: Task) -> NDArray[np.float64]:
        competing = sorted(set(public) & set(task.prior)) if is_given else list(public)
        scores = np.full((len(task.test), len(names)), -np.inf)
        scores[:, competing] = unit_rows(task.test.inputs) @ directions[competing].T
        return scores

    return replace(known, untrained=zero_shot(streams, nearest))


def of_labels(spec: RunSpec) -> References:
    """Chance from the label columns alone, for runs that were stored before it was.

    Where the files are gone, one over the number of classes that the dataset's card gives; where that is gone too, 0.
    """
    try:
        streams = [scenarios.tested(spec.data, spec.scenario, seed, None) for seed in spec.seeds]
        opened = [stream for stream in streams if stream is not None]
        card = datasets.card(spec.data.dataset)
    except BadInput:
        return References(0.0)
    if not opened:
        n_classes = 0 if card.kind == "tagged" else card.n_classes
        return References(1 / n_classes if n_classes else 0.0)
    classes = opened[0].classes
    public = [place for place, name in enumerate(classes) if spec.public_labels is None or name in spec.public_labels]
    level = scenarios.chance(opened, public, is_task_given=spec.params.is_task_given)
    known = References(level, n_tested=scenarios.n_tested(opened))
    return known if card.kind == "text" else _guessing(known, spec)


def _guessing(known: References, spec: RunSpec) -> References:
    """With a network that has never heard of the labels: it can only guess. Without one, there is nothing to ask."""
    return known if backbones.card(spec.data.backbone).size_mb == 0 else replace(known, untrained=known.chance)


def answered(known: References, streams: Sequence[TaskStream], fresh: Learner) -> References:
    """The same with the answers of a learner that has learned nothing, if it can answer so early."""
    return replace(known, untrained=zero_shot(streams, fresh.untrained)) if isinstance(fresh, Answering) else known


# What a run will do to private data, from settings and public sizes alone: a ledger for each budget.
#
# A method's card names its plan in `planned`: a function that enters one budget's events for all tasks. A run enters no more
# than that (`learning`), so that a bound for the plan holds for every run, however early it ends.

# Enters all that one model of this budget will do; the settings have the budget of one row where a person has several.
Plan = Callable[[RunSpec, PublicSizes, float, Ledger], None]


def run_plan(asked: RunSpec, spec: RunSpec, facts: PublicSizes, learners: Sequence[Sequence[Cell]], rows: int) -> Planned:
    """The plan of a run's models, by learner. `asked`: as it was asked for, `spec`: with the budget of one of `rows`."""
    names = dict(zip(spec.cells(), asked.cells(), strict=True))
    asked_for = zip(spec.privacy.epsilons, asked.privacy.epsilons, strict=True)
    books = {name: _ledger(asked, spec, facts, epsilon, rows) for epsilon, name in asked_for}
    cells = tuple(tuple(names[cell] for cell in learner) for learner in learners)
    total, delta = joint_release([{cell: books[cell.epsilon] for cell in learner} for learner in cells])
    n_people = facts.n_people // rows if facts.n_users is None else facts.n_users
    ledgers = tuple((epsilon, ledger_entries(book)) for epsilon, book in books.items())
    return Planned(total, delta, n_people, facts.n_tasks, cells, ledgers)


def _ledger(asked: RunSpec, spec: RunSpec, facts: PublicSizes, epsilon: float, rows: int) -> Ledger:
    card = methods.card(spec.method)
    ledger = Ledger(asked.privacy.delta, spec.privacy.adjacency, facts.recurrence, rows_per_unit=rows)
    is_bounded = card.guarantee == "proved" and methods.standing(asked) == "bound" and math.isfinite(epsilon)
    if is_bounded and card.planned:
        module, _, name = card.planned.partition(":")
        cast(Plan, getattr(import_module(module), name))(spec, facts, epsilon, ledger)
        if spec.labels != asked.labels:  # lists are given to the learner, and learned before
            privacy, place = budgets.for_a_row(asked.privacy, rows), spec.privacy.epsilons.index(epsilon)
            of_list = given_lists.budget(privacy, privacy.epsilons[place], facts)
            each_task(ledger, facts, labels.event(*of_list, privacy.adjacency))
    else:
        everyone = tuple(range(facts.n_tasks))
        ledger.spend(dp.NonPrivateDpEvent(), task=0, what="nothing bounds what such a model may reveal", people_of=everyone)
    return ledger


# Pre-run forecast of the effect of noise, for methods whose card has one.


def forecast(spec: RunSpec, *, n_features: int, classes_per_task: float, facts: PublicSizes) -> tuple[NoiseForecast, ...]:
    """Forecasts for the budgets whose noise is at least as long as the longest signal, smallest budget first.

    Args: n_features (where no public axes are taken), classes_per_task, facts: public numbers, see `ForecastNoise`.
    """
    if (of_budget := methods.card(spec.method).forecast) is None:
        return ()
    counts = methods.axes_by_epsilon(spec, facts)
    forecasts = [
        of_budget(spec, epsilon, n_features=counts.get(epsilon, n_features), classes_per_task=classes_per_task, facts=facts)
        for epsilon in sorted(filter(math.isfinite, spec.privacy.epsilons))
    ]
    return tuple(one for one in forecasts if one is not None and one.ratio >= COSTLY)
