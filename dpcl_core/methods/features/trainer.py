"""Trains one model per cell with DP-SGD, whatever is adapted: what the ensemble and its two baselines have in common."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpcl_core.events import Progress
from dpcl_core.methods.common import dpsgd_cost
from dpcl_core.methods.common.dpsgd_plan import Schedule
from dpcl_core.methods.common.learner import PublicContext
from dpcl_core.methods.features import linear_heads
from dpcl_core.methods.features.cards.adaptation_params import PeftParams
from dpcl_core.methods.features.process_pool import Job, ProcessPool, Running, estimate
from dpcl_core.privacy.labels import LabelLists, listed_labels
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.noise import Batches, Noise, noise_of
from dpcl_core.scenarios.stream import Examples
from dpcl_core.spec import Cell, RunSpec

if TYPE_CHECKING:
    from dpcl_core.backbones.adaptable import Network
    from dpcl_core.methods.features import adapters


class Model(Protocol):
    """What was trained for one seed: one classifier a budget."""

    def logits(self, inputs: NDArray[np.generic]) -> NDArray[np.floating]:
        """[epsilons, n, classes] of inputs [n, ...]; -inf outside a budget's label space."""
        ...

    def released(self, place: int) -> Mapping[str, NDArray[np.generic]]:
        """The trained numbers of the budget at this place, by name, and which `labels` [classes] are in its space."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """One training: on whose data, over which public lists, from which model (None: a fresh one).

    `tasks`: the tasks whose people the examples may be of; the last one is the task being learned. `nominal_size`: public
    number of examples, that of a task unless the work takes several together.
    """

    examples: Examples
    prior: tuple[int, ...]
    tasks: tuple[int, ...]
    nominal_size: float
    start: Model | None = None


class Trainer:
    """Trains the cells of a run. Holds noise, batches and public facts, never an example."""

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], known: PublicContext) -> None:
        assert isinstance(spec.params, PeftParams)
        self._spec, self._params, self._known = spec, spec.params, known
        self.seeds = tuple(dict.fromkeys(cell.seed for cell in cells))
        self._epsilons = tuple(dict.fromkeys(cell.epsilon for cell in cells))
        self._crew = self._manned()  # first: its processes start while noise multipliers are searched for
        self._multipliers = {e: dpsgd_cost.noise_multiplier(spec, spec.params, e) for e in self._epsilons}
        self._lists = LabelLists(spec, known.public, known.n_tasks)
        self._begun: dict[int, Running] = {}  # by task
        self._network: Network | None = None  # the frozen network under all adapters: loaded once, shared by every model

    def _manned(self) -> ProcessPool:
        known, params = self._known, self._params
        plan = dpsgd_cost.schedule(params, known.task_size)
        n_weights = len(self._epsilons) * known.n_classes * (known.n_inputs + 1)
        seconds = estimate(plan.n_steps, plan.expected_batch, n_weights) if params.adapter == "head" else 0.0
        return ProcessPool(len(self.seeds), len(self.seeds) * known.n_tasks * seconds)

    def begin(self, works: Mapping[int, Work]) -> None:
        """Starts trainings whose turn comes later, where processes would be idle else: heads, over public lists of labels.

        What they give stays with the crew until `train` is asked for their task, which writes the ledgers first.
        """
        task, n = _task(works), len(self._epsilons)
        listed = {seed: self._lists.public(work.prior) for seed, work in works.items()}
        spaces = {seed: (space,) * n for seed, space in listed.items() if space is not None}
        if self._crew.is_beside and task not in self._begun and len(spaces) == len(works):
            self._begun[task] = self._crew.begin(self._jobs(works, spaces), is_last=task == self._known.n_tasks - 1)

    def train(
        self, works: Mapping[int, Work], ledgers: Mapping[Cell, Ledger]
    ) -> Generator[tuple[int, int], None, dict[int, Model]]:
        """The models by seed; yields steps done and steps in all, over all seeds.

        Everything is in the ledgers before anything of a step is seen. Raises Diverged, BadInput.
        """
        spaces = {seed: self._account(seed, work, ledgers) for seed, work in works.items()}
        if self._params.adapter != "head":
            return (yield from self._adapters(works, spaces))
        running = self._begun.pop(_task(works), None) or self._crew.begin(self._jobs(works, spaces))
        total = sum(self._plan(work).n_steps for work in works.values())
        steps = running.heads()
        while True:
            try:
                yield next(steps), total
            except StopIteration as ended:
                return cast("dict[int, Model]", ended.value)

    def told(self, works: Mapping[int, Work], ledgers: Mapping[Cell, Ledger]) -> Generator[Progress, None, dict[int, Model]]:
        """The same, its progress in the run's words."""
        steps = self.train(works, ledgers)
        task = _task(works)
        text, is_reported = f"steps of DP-SGD ({self._params.adapter})", False
        while True:
            try:
                done, total = next(steps)
            except StopIteration as ended:
                if not is_reported:  # whether processes report a step before they are done is a matter of time
                    yield Progress("training", 1, 1, task, text)
                return cast("dict[int, Model]", ended.value)
            yield Progress("training", done, total, task, text)
            is_reported = True

    def released(self, model: Model, cell: Cell) -> Mapping[str, NDArray[np.generic]]:
        """What of a seed's model is the cell's own."""
        found = dict(model.released(self._epsilons.index(cell.epsilon)))
        named = cast("NDArray[np.bool_]", found["labels"])
        shown = listed_labels(named, self._known.n_classes)
        return {name: numbers[shown] if name in ("weights", "labels") else numbers for name, numbers in found.items()}

    def _account(self, seed: int, work: Work, ledgers: Mapping[Cell, Ledger]) -> linear_heads.Spaces:
        """The label list of every budget of this seed, with list and training written down."""
        cells = [Cell(epsilon, seed) for epsilon in self._epsilons]
        plan = self._plan(work)
        spaces = self._lists.released(cells, work.prior, work.examples.labels, ledgers, tasks=work.tasks)
        for cell in cells:
            event = dpsgd_cost.event(plan, self._multipliers[cell.epsilon])
            ledgers[cell].spend(
                event,
                task=work.tasks[-1],
                what=plan.words,
                people_of=work.tasks,
                shares_batches=self._params.adapter == "head",
            )
        return spaces

    def _plan(self, work: Work) -> Schedule:
        return dpsgd_cost.schedule(self._params, work.nominal_size)

    def _jobs(self, works: Mapping[int, Work], spaces: Mapping[int, linear_heads.Spaces]) -> dict[int, Job]:
        jobs: dict[int, Job] = {}
        for seed, work in works.items():
            start = work.start or linear_heads.fresh(spaces[seed], self._known.n_inputs, self._known.n_labels)
            assert isinstance(start, linear_heads.Heads)
            jobs[seed] = Job(
                start,
                work.examples.inputs,
                work.examples.labels,
                self._plan(work),
                [self._multipliers[epsilon] for epsilon in self._epsilons],
                self._batches(seed, work),
                [self._noise(Cell(epsilon, seed), work) for epsilon in self._epsilons],
            )
        return jobs

    def _noise(self, cell: Cell, work: Work) -> Noise:
        """A source of its own for every training."""
        return noise_of(self._spec.privacy.noise, cell, f"training for task {work.tasks[-1]}")

    def _batches(self, seed: int, work: Work, epsilon: float | None = None) -> Batches:
        """One sequence for all budgets of a seed, as heads take them, or one of `epsilon`'s own."""
        seeded = self._spec.privacy.noise == "seeded"
        purpose = f"training for task {work.tasks[-1]}" + ("" if epsilon is None else f" at epsilon {epsilon}")
        return Batches(self._params.sample_rate, seed if seeded else None, purpose)

    def _adapters(
        self, works: Mapping[int, Work], spaces: Mapping[int, linear_heads.Spaces]
    ) -> Generator[tuple[int, int], None, dict[int, Model]]:
        """One model after the other: each keeps all cores busy."""
        from dpcl_core.backbones import adaptable  # torch, which heads do without
        from dpcl_core.methods.features import adapters

        params, n_labels = self._params, self._known.n_labels
        assert params.adapter != "head"
        if self._network is None:
            self._network = adaptable.load(self._spec.data.backbone, self._known.device)
        found: dict[int, Model] = {}
        total = sum(self._plan(work).n_steps for work in works.values()) * len(self._epsilons)
        before = 0
        for seed, work in works.items():
            plan, trained = self._plan(work), []
            for place, (epsilon, space) in enumerate(zip(self._epsilons, spaces[seed], strict=True)):
                if isinstance(work.start, SideBySide):
                    start = work.start.models[place]
                else:
                    start = adapters.fresh(self._network, params.adapter, params.lora_rank, space, n_labels, seed)
                steps = adapters.trained(
                    start,
                    work.examples.inputs,
                    work.examples.labels,
                    plan,
                    self._multipliers[epsilon],
                    self._batches(seed, work, epsilon),
                    self._noise(Cell(epsilon, seed), work),
                )
                while True:
                    try:
                        yield before + next(steps), total
                    except StopIteration as ended:
                        trained.append(cast("adapters.Adapter", ended.value))
                        break
                before += plan.n_steps
            found[seed] = SideBySide(trained)
        return found


def _task(works: Mapping[int, Work]) -> int:
    """The task being learned, the same for all seeds."""
    return next(iter(works.values())).tasks[-1]


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """The adapted networks of one seed, one a budget."""

    models: Sequence[adapters.Adapter]

    def logits(self, inputs: NDArray[np.generic]) -> NDArray[np.floating]:
        """[epsilons, n, classes] of pictures uint8 [n, side, side, channels]."""
        return np.stack([model.logits(inputs) for model in self.models])

    def released(self, place: int) -> Mapping[str, NDArray[np.generic]]:
        """The adapter's and the last layer's numbers, by name."""
        return self.models[place].released()
