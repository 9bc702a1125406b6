"""A paper's experiment on other data: its runs there, and which of the paper's claims hold.

The runs keep methods, parameters, budgets and seeds. Data, network and tasks change by public rules, from cards and public
sizes alone: a network that reads such data; as many classes a task as nearly as they divide; as many examples a task.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.data.card import DatasetCard
from dpcl_core.errors import BadInput
from dpcl_core.events import JsonValue
from dpcl_core.figures.picture import counted
from dpcl_core.papers import catalog, claims, questions, report
from dpcl_core.papers.claims import Claim, Form
from dpcl_core.papers.paper import Elsewhere, Experiment, Paper, Size
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.scenarios.catalog import Blurry, ClassGroups, Federated, IBlurry, OneVsRest, Permuted, SourceIncremental
from dpcl_core.spec import DataSpec, RunSpec, ScenarioSpec

_MOST_SINGLE = 20  # tasks of one class each
_GUESSES = "not tested: a network this small only guesses"
HEAD = ("claim", "at", "on the paper's data", "there")


def planned(
    experiment: Experiment, size: Size, dataset: str, sets: Sequence[str] = ()
) -> tuple[dict[str, RunSpec], dict[str, str]]:
    """The runs of an experiment that its claims compare, on other data, by label; and of those that cannot go, why not.

    `sets`: changes in the form of `--set`, after the move. On a person's own data there are no runs without noise unless
    `sets` name the budgets: nothing would protect the people in them. Raises BadInput where no claim can be tested.
    """
    own, first = datasets.card(dataset).is_own, None
    named = any(one.partition("=")[0].strip() == "privacy.epsilons" for one in sets)
    specs, refused = dict[str, RunSpec](), dict[str, str]()
    for label, spec in _compared(experiment, size).items():
        budgets = tuple(one for one in spec.privacy.epsilons if not own or named or math.isfinite(one))
        try:
            if not budgets:
                raise BadInput("privacy.epsilons", math.inf, "protects nobody in your own data: left out unless set")
            wanted = moved(replace(spec, privacy=replace(spec.privacy, epsilons=budgets)), dataset)
            wanted = checks.parse(checks.apply_sets(asdict(wanted), sets))
            checks.check_run(wanted)
        except BadInput as error:
            first = first or error
            refused[label] = f"{error.field} = {error.value}: {error.allowed}"
        else:
            specs[label] = wanted
    if not any({one.first.run, one.second.run} <= specs.keys() for one in experiment.orderings):
        why = f" ({first.field} = {first.value}: {first.allowed})" if first else ""
        raise BadInput("--on", dataset, f"leaves no claim of {experiment.name} to be tested: take other data{why}")
    return specs, refused


def moved(spec: RunSpec, dataset: str) -> RunSpec:
    """A run of a paper's experiment on another dataset, which its public facts alone decide.

    Raises BadInput for an unknown dataset, own data that are not there, and where no network reads it for this method.
    """
    old, new = _public(spec.data.dataset, spec.scenario), _public(dataset, spec.scenario)
    scenario = _stream(spec.scenario, old, new)
    more = scenarios.number_of_tasks(scenario, new.n_classes, new.sources) / _n_tasks(spec.scenario, old)
    data, privacy = _part(spec.data, old, new, more), spec.privacy
    kept = new.n_train if data.train_per_class is None else data.train_per_class * new.n_classes
    if privacy.delta >= 1 / kept:
        privacy = replace(privacy, delta=checks.default_delta(kept))
    made = replace(spec, data=data, scenario=scenario, privacy=privacy)
    try:
        checks.check_cards(made, new.card)
    except BadInput:
        reads = spec.params.inputs == "text"
        network = backbones.fitting(dataset, is_language_model=True) if reads else presets.usual_network(dataset)
        made = replace(made, data=replace(data, backbone=network or data.backbone, resolution=None, axes=None))
        checks.check_cards(made, new.card)
    return made


@dataclass(frozen=True, slots=True)
class _Public:
    """What a run moves by: a dataset's card and sizes; of a catalogue's set as published, whatever files are here."""

    card: DatasetCard
    n_train: int
    n_classes: int
    sources: tuple[str, ...]


def _public(name: str, scenario: ScenarioSpec) -> _Public:
    """Public facts of a dataset. Recordings of movements all come at the same rates, which the experiment's order names."""
    card = datasets.card(name)
    if card.is_own:
        facts = datasets.facts(name)
        return _Public(card, facts.n_train, facts.n_classes, facts.sources)
    rates = (getattr(scenario, "order", None) or ()) if card.kind == "sensor" else ()
    sources = tuple(source for source, _ in card.sources) or card.members or tuple(map(str, rates))
    return _Public(card, card.n_train, card.n_classes, sources)


def _stream(scenario: ScenarioSpec, old: _Public, new: _Public) -> ScenarioSpec:
    """The same kind of stream; where the new data have no sources to be tasks, groups of classes take their place."""
    n_before, n_classes = _n_tasks(scenario, old), new.n_classes
    if isinstance(scenario, Permuted):
        return replace(scenario, order=None, permutations=None)
    if isinstance(scenario, SourceIncremental):
        if len(new.sources) > 1:
            return replace(scenario, order=_order(scenario.order, old.sources, new.sources))
        return _groups(scenarios.ClassIncremental(tasks=n_before), n_classes, is_single=False)
    if isinstance(scenario, Federated):
        by_source = scenario.by_source and (len(new.sources) > 1 or new.card.kind == "tagged")
        order = _order(scenario.order, old.sources, new.sources) if by_source else None
        protocol = "class-incremental" if scenario.by_source and not by_source else scenario.protocol
        changed: dict[str, Any] = {"order": order, "protocol": protocol, "tasks": None}
        if protocol == "one-vs-rest":
            changed["tasks"] = min(n_before, n_classes)
        elif protocol == "class-incremental":
            changed["tasks"] = _fitting(n_before, n_classes, is_single=n_before == old.n_classes) or None
        if not new.sources:
            changed["partition"] = "dirichlet"
        return replace(scenario, **changed)
    if isinstance(scenario, ClassGroups):
        return _groups(scenario, n_classes, is_single=n_before == old.n_classes)
    if isinstance(scenario, OneVsRest):
        return replace(scenario, tasks=min(n_before, n_classes))
    assert isinstance(scenario, Blurry)  # as many tasks as in the stream without blur, which it is compared with
    return replace(scenario, tasks=_groups(scenarios.ClassIncremental(tasks=n_before), n_classes, is_single=False).tasks)


def _groups(scenario: ClassGroups, n_classes: int, *, is_single: bool) -> ClassGroups | IBlurry:
    """Groups of classes: equal ones if the classes divide, else as equal as can be."""
    if n := _fitting(scenario.tasks, n_classes, is_single=is_single):
        order: dict[str, Any] = {"order": None} if hasattr(scenario, "order") else {}
        return replace(scenario, tasks=n, classes_per_task=None, **order)
    return IBlurry(tasks=max(1, min(scenario.tasks, n_classes // 2)), disjoint_percent=100)


def _fitting(wanted: int, n_classes: int, *, is_single: bool) -> int:
    """The number of equal tasks nearest to `wanted` by ratio, of two classes or more; 0 if there is none.

    `is_single`: tasks of one class are wanted, which up to twenty classes have.
    """
    if is_single and n_classes <= _MOST_SINGLE:
        return n_classes
    able = [n for n in range(2, n_classes // 2 + 1) if n_classes % n == 0]
    return min(able, key=lambda n: (abs(math.log(n / wanted)), n), default=0)


def _order(order: tuple[str, ...] | None, old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...] | None:
    """Sources in an order: by name if the new data have the same ones, else by their places; further ones come last."""
    if order is None or set(order) <= set(new):
        return order
    first = [new[place] for place in map(old.index, order) if place < len(new)]
    return (*first, *(name for name in new if name not in first))


def _n_tasks(scenario: ScenarioSpec, of: _Public) -> int:
    return scenarios.number_of_tasks(scenario, of.n_classes, of.sources)


def _part(data: DataSpec, old: _Public, new: _Public, more_tasks: float) -> DataSpec:
    """As many examples a task as before, or all where the data have fewer. Of tagged texts: as many sentences a source."""
    if new.card.kind == "tagged":
        return replace(data, dataset=new.card.name)
    train = data.train_per_class
    if data.train_per_source is not None:
        train = round(data.train_per_source * len(old.sources) / old.n_classes)
    ratio = more_tasks * old.n_classes / new.n_classes
    train, test = (None if cap is None else max(1, round(cap * ratio)) for cap in (train, data.test_per_class))
    if train is not None and train * new.n_classes >= new.n_train:
        train = None
    return replace(data, dataset=new.card.name, train_per_source=None, train_per_class=train, test_per_class=test)


# What came out there, beside the paper's data.


@cache
def recorded(paper: Paper) -> tuple[tuple[Elsewhere, Form], ...]:
    """Every experiment of a paper with the other data on which its claims were tested, as recorded."""
    found = []
    for experiment in paper.experiments:
        for one in experiment.elsewhere:
            moves = {  # from cards, as a page without data shows them too
                label: checks.parse(checks.apply_sets(asdict(moved(spec, one.on)), one.set))
                for label, spec in _compared(experiment, one.size).items()
            }
            specs = {label: moves[label] for label in questions.recorded(moves)} or moves
            chances = questions.chances(questions.recorded_chance(one.name(experiment)), specs, specs)
            found.append((one, claims.form(paper, experiment, one.size, specs=specs, chances=chances)))
    return tuple(found)


def _compared(experiment: Experiment, size: Size) -> dict[str, RunSpec]:
    """The runs of an experiment that its claims compare, by label."""
    sides = {side.run for one in experiment.orderings for side in (one.first, one.second)}
    return {label: spec for label, spec in presets.variants(experiment.preset(size)).items() if label in sides}


def tested_claims(of: Form) -> tuple[Claim, ...]:
    """The claims of a form on other data: the paper's, or ours in an experiment that the paper does not have."""
    return claims.claims([of], are_ours=of.experiment.is_ours)


def lines(of: Form) -> list[tuple[str, str, str, str]]:
    """A line for each claim: what it says, its budgets, the verdict on the paper's data (all forms), and the one there."""
    whole = claims.claims(claims.recorded_forms(of.paper), are_ours=of.experiment.is_ours)
    before = {_key(one): one.verdict for one in whole if one.tests[0][0].experiment.claimed_in == of.experiment.claimed_in}
    return [
        (*_key(one), before.get(_key(one), "not run"), _GUESSES if of.is_toy else claims.verdict_text(one))
        for one in tested_claims(of)
    ]


def _key(claim: Claim) -> tuple[str, str]:
    return claim.ordering.statement, report.budgets_of(claim.ordering)


def sentence(of: Form) -> str:
    """How many of the claims hold there, and how many of those that were found on the paper's data."""
    if of.is_toy:
        return f"{_GUESSES.capitalize()}."
    found = lines(of)
    n_before = sum(before == "found" for _, _, before, _ in found)
    kept = sum(before == there == "found" for _, _, before, there in found)
    both = f" Of {counted(n_before, 'claim')} found on the paper's data, {kept} hold there." if n_before else ""
    return f"{claims.sentence(tested_claims(of))}{both}"


def data_title(of: Form) -> str:
    """The data of a form's runs: as used, or as its card names them where nothing has run."""
    titles = dict.fromkeys(run.dataset_title for run in of.runs.values())
    return "; ".join(titles) or datasets.card(next(iter(of.specs.values())).data.dataset).title


def changes(of: Form) -> str:
    """Network, tasks and size of the first run, in a sentence."""
    spec = next(iter(of.specs.values()))
    n_tasks = _n_tasks(spec.scenario, _public(spec.data.dataset, spec.scenario))
    kept = spec.data.train_per_class or spec.data.train_per_source
    part = "all training examples" if kept is None else f"about {kept:,} training examples of each class or source"
    return f"Network {spec.data.backbone}, {counted(n_tasks, 'task')} ({spec.scenario.kind}), {part}."


def text(of: Form, refused: Mapping[str, str]) -> str:
    """The report for a terminal."""
    name = of.experiment.preset(of.size)
    said = [f"{of.experiment.title} ({name}), {of.paper.title}, on {data_title(of)}", f"  {changes(of)}"]
    said += [f"  Left out: {label}: {why}" for label, why in refused.items()]
    said += [f"  {there}: {claim}, {at} (on the paper's data: {before})" for claim, at, before, there in lines(of)]
    return "\n".join([*said, f"  {sentence(of)}", ""])


def document(of: Form, refused: Mapping[str, str]) -> JsonValue:
    """The same as JSON."""
    return {
        "paper": of.paper.name,
        "experiment": of.experiment.name,
        "preset": of.experiment.preset(of.size),
        "on": next(iter(of.specs.values())).data.dataset,
        "dataset": data_title(of),
        "runs": {label: run.run_id for label, run in of.runs.items()},
        "left_out": dict(refused),
        "claims": [
            {"statement": claim, "at": at, "on_the_papers_data": before, "there": there}
            for claim, at, before, there in lines(of)
        ],
    }


def of_experiment(name: str) -> tuple[Paper, Experiment]:
    """The paper and the experiment of a name. Raises BadInput naming the known ones."""
    for paper in catalog.PAPERS.values():
        for experiment in paper.experiments:
            if experiment.name == name:
                return paper, experiment
    raise BadInput("TARGET", name, "must be an experiment of a paper with --on, such as paper-split-cifar-100")
