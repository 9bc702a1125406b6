"""Independent noise for every record (repair of L2DP-ML): trains on noisy copies only."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.events import Progress
from dpcl_core.methods.common.classifier import Rule
from dpcl_core.methods.common.dpsgd import each_task
from dpcl_core.methods.common.method import PublicContext, PublicSizes, settings_of
from dpcl_core.methods.lifelong import params as settings
from dpcl_core.methods.lifelong import quadratic
from dpcl_core.methods.lifelong.params import CoefficientParams
from dpcl_core.methods.lifelong.quadratic import LinearReadout, RandomMap
from dpcl_core.privacy.labels import label_space
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.privacy.mechanisms import Coefficients
from dpcl_core.privacy.noise_forecast import NoiseForecast, noise_to_signal_of_copies
from dpcl_core.privacy.sums import row_blocks
from dpcl_core.privacy.text_mechanisms import Randomiser, epsilon_of_each, noisy_records
from dpcl_core.published import Departure, Printed
from dpcl_core.scenarios.stream import Task
from dpcl_core.spec import Cell, RunSpec, parameter


@dataclass(frozen=True, kw_only=True)
class IndependentLaplaceParams(CoefficientParams):
    """Settings of noise for every record."""

    steps: int = parameter(
        20, ge=1, le=100_000, title="Training steps",
        description="Steps of gradient descent in each task; few of them fit less of the noise.")
    project_to: Annotated[int, Interval(ge=0, le=4096)] = parameter(
        16, title="Random projection to",
        description="Dimensions that an example's values are brought to by a public random projection; 0: the values "
        "themselves, which data.backbone = pixels alone allows.")
    clip: Annotated[float, Interval(gt=0, le=1000)] = parameter(
        1.0, title="Clipping bound",
        description="L1 norm that projected values are cut down to, 1 on average before; not used without projection.")
    label_share: float = parameter(
        0.5, ge=0.01, le=0.99, title="Share of ε for labels",
        description="Share of epsilon that pays for the label of each example.")


def randomiser(spec: RunSpec, n_copies: int, n_inputs: int, budget: float) -> Randomiser:
    """The local randomiser of a record's copies at the budget that they share, split between values and label."""
    params, epsilon = settings_of(spec, IndependentLaplaceParams), epsilon_of_each(budget, spec.privacy.delta, n_copies)
    for_values, for_labels = (1 - params.label_share) * epsilon, params.label_share * epsilon
    if params.project_to == 0:
        return Randomiser(n_inputs, for_values, for_labels)
    return Randomiser(params.project_to, for_values, for_labels, params.clip)


class NoisyRecords(LinearReadout):
    """All budgets and seeds of a run. Training needs only sums over the noisy copies, so only these are kept.

    Where an example can be in every task, its copies share the budget equally.
    """

    params: IndependentLaplaceParams

    def __init__(self, spec: RunSpec, cells: Sequence[Cell], context: PublicContext) -> None:
        params, n_inputs = settings_of(spec, IndependentLaplaceParams), context.n_inputs
        if params.project_to > n_inputs:
            allowed = f"must be at most {n_inputs}, the number of values of an example"
            raise BadInput("params.project_to", params.project_to, allowed)
        super().__init__(spec, cells, context, "records", (params.project_to or n_inputs) + 1)
        self._randomisers = [randomiser(spec, context.n_recurring, n_inputs, epsilon) for epsilon in self._epsilons]
        is_projected = params.project_to > 0
        self._unit = math.sqrt(params.project_to) / params.clip if is_projected else 1 / math.sqrt(n_inputs)
        seeds = self._weights if is_projected else ()
        self._maps = {seed: RandomMap("projection", n_inputs, params.project_to, seed) for seed in seeds}

    def learn(self, tasks: Mapping[int, Task], ledgers: Mapping[Cell, Ledger]) -> Iterator[Progress]:
        for turn, (seed, task) in enumerate(tasks.items()):
            space = label_space(self._labels, task.prior, self._context.public, task.train.labels, (), task=task.index)
            if space:  # without a public class there is nothing to learn or store
                loss = self._stored(seed, task, space, ledgers)
                yield from self._descend(seed, task, loss, "the noisy copies", turn, len(tasks))

    def scores(self, seed: int, task: Task) -> Mapping[str, NDArray[np.floating]]:
        """Scores z = W x of test examples without noise, the only prediction rule."""
        values = self._unit * self._values(seed, task.test.inputs)
        return {"argmax": self._class_scores(seed, np.hstack([values, np.ones((len(values), 1))]), task)}

    def rule(self, cell: Cell) -> Rule | None:
        """The largest score of an example's values, projected at random or scaled to [-1, 1], and a last 1."""
        size = self.params.project_to
        if not size:
            return self._rule(cell, unit=self._unit, centred=True)
        return self._rule(cell, unit=self._unit, random="projection", seed=cell.seed, n_features=size)

    def _stored(self, seed: int, task: Task, space: Sequence[int], ledgers: Mapping[Cell, Ledger]) -> quadratic.Quadratic:
        """The loss of a task, from the noisy copies of every budget. A sum over one copy is the copy itself."""
        values, labels = self._values(seed, task.train.inputs), task.train.labels
        by_budget = []
        for epsilon, local in zip(self._epsilons, self._randomisers, strict=True):
            cell = Cell(epsilon, seed)
            copies, answers = noisy_records(values, labels, space, local, self._noises[cell], ledgers[cell], task=task.index)
            by_budget.append(unbiased_sums(copies, answers, space, self._context.n_classes, local, self._unit))
        names = ("features", "products", "by_class")
        sums = Coefficients(*(np.stack([getattr(budget, name) for budget in by_budget]) for name in names))
        return self._loss(seed, task, sums, max(1, len(labels)))

    def _values(self, seed: int, inputs: NDArray[np.generic]) -> NDArray[np.floating]:
        """The values of each example that are noised: its projection, or its values scaled to [-1, 1]."""
        if seed in self._maps:
            return self._maps[seed].of(inputs)
        assert self._context.form is not None
        return centred(inputs, self._context.form)


def centred(inputs: NDArray[np.generic], form: Form) -> NDArray[np.float32]:
    """Values in the form's range, scaled to [-1, 1]: float32 [n, K]."""
    rows = np.asarray(inputs, dtype=np.float32)
    return np.float32(2 / (form.high - form.low)) * (rows - np.float32(form.low)) - np.float32(1)


def unbiased_sums(
    copies: NDArray[np.float32], answers: NDArray[np.int64], space: Sequence[int], n_classes: int, local: Randomiser,
    unit: float,
) -> Coefficients:
    """Unbiased estimates, from noisy copies, of the records' sums; a record is its values times `unit` and a last value 1.

    Noise of variance 2 b^2 adds n 2 b^2 to each sum of squares, which is subtracted. An answer "k" counts (1 - q) / (p - q)
    for class k and -q / (p - q) for the others, with p and q the chances of randomised response.
    """
    n, size = copies.shape
    sums = Coefficients(np.zeros(size + 1), np.zeros((size + 1, size + 1)), np.zeros((n_classes, size + 1)))
    chosen, (true_label, other) = np.asarray(space, dtype=np.int64), local.chances(len(space))
    for part in row_blocks(n, size + 1):
        rows = np.hstack([unit * copies[part].astype(np.float64), np.ones((len(copies[part]), 1))])
        sums.features[:] += rows.sum(axis=0)
        sums.products[:] += rows.T @ rows
        sums.by_class[chosen] += ((chosen[:, None] == answers[None, part]) - other) / (true_label - other) @ rows
    diagonal = np.arange(size)
    sums.products[diagonal, diagonal] -= n * 2 * (unit * local.scale) ** 2
    return sums


make_learner = NoisyRecords


def planned(spec: RunSpec, facts: PublicSizes, epsilon: float, ledger: Ledger) -> None:
    """The plan of a model (`methods.references`): one noisy copy of every record a task."""
    each_task(ledger, facts, randomiser(spec, facts.n_recurring, 1, epsilon).event)


def forecast(
    spec: RunSpec, epsilon: float, *, n_features: int, classes_per_task: float, facts: PublicSizes
) -> NoiseForecast:
    """Forecast for noise on every record: the noise on the sum of a class's copies; projected values by their usual norm."""
    params = settings_of(spec, IndependentLaplaceParams)
    local = randomiser(spec, facts.n_recurring, n_features, epsilon)
    length, signal = math.sqrt(n_features), "longest signal there can be"
    if local.l1_clip is not None:  # normal values with an L1 norm of 1, or of the clip if smaller
        length, signal = min(1.0, local.l1_clip) * math.sqrt(math.pi / 2 / local.n_values), "usual signal"
    class_size, is_everywhere = facts.task_size / classes_per_task, settings.is_noised_in_every_task(spec, facts)
    n_labels = facts.n_classes if is_everywhere else max(1, round(classes_per_task))
    n_records = facts.n_people if is_everywhere else facts.task_size
    ratio = noise_to_signal_of_copies(
        local.scale, local.chances(n_labels), length, n_values=local.n_values, class_size=class_size, n_records=n_records
    )
    # Four times as many records have four times the signal and twice the noise.
    return NoiseForecast(
        epsilon, ratio, class_size, is_everywhere, None, class_size * ratio**2, signal, params.project_to == 0
    )


SIZES_ARE_PUBLIC = (
    "how many examples a task has is public, and so is which task an example is in: one of the same task takes its place"
)


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for settings under which no bound holds."""
    if spec.privacy.adjacency != "replace":
        allowed = "must be replace: each example leaves a noisy copy, so that how many there are is plain to see"
        raise BadInput("privacy.adjacency", spec.privacy.adjacency, allowed, {"privacy.adjacency": "replace"})
    params = settings_of(spec, IndependentLaplaceParams)
    if params.project_to == 0 and spec.data.backbone != "pixels":
        allowed = "must be at least 1 with features of a network: they have no range, only their projection is clipped"
        raise BadInput("params.project_to", 0, allowed)


def derived(params: IndependentLaplaceParams, facts: PublicSizes) -> str:
    """The effect of the settings on the noise."""
    if params.project_to == 0:
        return "Noise on a value of range 2: for each value of an example 2 / ε of the values' part of the budget."
    return f"Noise of scale {2 * params.clip:g} / ε of the values' part on each of {params.project_to} projected values."


PRINTED = settings.printed(
    settings.READOUT,
    {
        "params.project_to": Printed((0,), "On fewer values less noise is needed."),
        "params.clip": "The paper projects nothing, and so clips nothing.",
        "params.label_share": "Labels have no noise of their own in the paper.",
    },
    always=(
        Departure("", "one draw of noise for all records", "every record has noise of its own", settings.RELEASED_ONCE.why),
        Departure(
            "", "a noise on the output layer's coefficients", "every label is a random answer",
            "The layers below the output would read labels without any noise.",
        ),
        settings.LINEAR,
    ),
    kind="repair",
)
CARD = settings.card(
    name="independent-laplace",
    title="Noise for every record (repair of L2DP-ML)",
    summary="Stores every example with its own noise: Laplace noise on each value, and a label that is true only with some "
    "probability. The copies may be used without limit. This is local privacy: no one has to be trusted, but the price is "
    "high.",
    source="A repair of Lai et al. 2022, section 4: fresh noise for each record in place of one noise for all",
    params=IndependentLaplaceParams, key_settings=("project_to", "clip", "label_share"),
    module=__name__, planned=f"{__name__}:planned", audit="dpcl_core.attacks.lifelong_games", cells_per_learner="all",
    labels=settings.LABELS,
    refuses=check, assumes=lambda params: (SIZES_ARE_PUBLIC,), derived=derived, forecast=forecast,
    ceiling="dp-coeff-memory", printed=PRINTED,
)
