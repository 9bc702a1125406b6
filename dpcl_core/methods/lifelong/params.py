"""Settings that methods of Lifelong DP share, their checks, and what Lai et al. 2022 print for all of them."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from annotated_types import Interval

from dpcl_core.data.dataset import Form
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.method import MethodCard, PublicSizes, printed_by, settings_of
from dpcl_core.published import Departure, Printed, PrintedPart, Values
from dpcl_core.scenarios.catalog import WITHOUT_CLIENTS, Permuted
from dpcl_core.spec import LabelSetting, Params, RunSpec, parameter

Projection = Literal["if-violated", "always", "never"]
_PROJECTION = (
    "When a step is kept from pointing against the memory's gradient. if-violated: where it would (A-GEM's code). always: "
    "at every step (as Lai et al. print it). never: plain fine-tuning."
)
Scope = Literal["joint", "per-block"]
FirstLayer = Literal["recentred", "plain", "batch-norm"]
OutputNoise = Literal["per-class", "shared"]
NetworkName = Literal["lifelong", "cnn-32", "cnn-64", "cnn-128", "bilstm", "cnn-ig", "cnn-ig-featureless"]


@dataclass(frozen=True, kw_only=True)
class NetworkParams(Params):
    """The setting that decides which outputs compete, and so what such a network is asked."""

    head: Literal["shared", "per-task"] = parameter(
        "shared",
        description="shared: all classes compete. per-task: the task of a test example is given; only its classes compete.")

    @property
    def is_task_given(self) -> bool:
        return self.head == "per-task"


@dataclass(frozen=True, kw_only=True)
class CoefficientParams(NetworkParams):
    """Training of the classifiers on a task's noisy sums: post-processing, which costs no privacy."""

    steps: int = parameter(
        200, ge=1, le=100_000, title="Training steps",
        description="Steps of gradient descent in each task; they cost no privacy.")
    learning_rate: float = parameter(
        3.0, gt=0, le=100, description="Step size, cut down where the noisy loss is too steep for it.")
    projection: Projection = parameter("if-violated", description=_PROJECTION)


@dataclass(frozen=True, kw_only=True)
class ReplayParams(NetworkParams):
    """Settings of those with a memory: step size, and use of the memory's gradient (A-GEM)."""

    learning_rate: float = parameter(0.1, gt=0, le=100, description="Step size of plain gradient descent.")
    projection: Projection = parameter("if-violated", description=_PROJECTION)
    scope: Scope = parameter(
        "joint", title="Projection acts on",
        description="joint: one projection of the whole gradient. per-block: one of the first layer, one of the rest.")


@dataclass(frozen=True, kw_only=True)
class BatchParams(ReplayParams):
    """Settings of methods that train on fixed batches and keep whole batches in memory."""

    batch_size: int = parameter(100, ge=1, le=100_000, description="Examples in each batch; the rest of a task is left out.")
    variant: Literal["basic", "balanced", "heterogeneous"] = parameter(
        "basic", title="Batches of tasks",
        description="basic: the same number of epochs for every task. balanced: the same number of steps. heterogeneous: "
        "epochs given task by task.")
    epochs: int = parameter(1, ge=1, le=1000, description="How often each batch is used, under variant = basic.")
    steps: Annotated[int, Interval(ge=1, le=10**6)] | None = parameter(
        None, title="Training steps", description="Steps in every task, under variant = balanced; not used otherwise.")
    epochs_by_task: tuple[int, ...] | None = parameter(
        None, title="Epochs of each task",
        description="Epochs of each task, in the stream's order, under variant = heterogeneous; else not used.")
    memory_pick: Literal["random", "last"] = parameter(
        "random", title="Batch kept", description="Which batch of a task is kept: a random one (as printed), or the last.")
    ref_batches: int = parameter(
        1, ge=1, le=100, title="Reference batches",
        description="Stored batches that the memory's gradient is taken on, at most.")


def input_form(form: Form | None, n_inputs: int) -> Form:
    """What a network of this family reads: examples' own values, or features of a frozen network, which have no range."""
    return Form((n_inputs,), 0.0, 0.0) if form is None else form


def check_lifelong(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for settings inconsistent with each other or with the stream."""
    params = settings_of(spec, NetworkParams)
    if params.head == "per-task" and spec.labels != "prior":
        allowed = "needs labels = prior: it takes each task's own list of labels as public"
        raise BadInput("params.head", "per-task", allowed, {"labels": "prior"})
    if not isinstance(params, BatchParams):
        return
    if params.variant == "balanced" and params.steps is None:
        raise BadInput("params.steps", "nothing", "must be given with params.variant = balanced")
    if params.variant == "heterogeneous":
        given = params.epochs_by_task or ()
        if len(given) != facts.n_tasks:
            allowed = f"must be {facts.n_tasks} whole numbers, one for each task, with params.variant = heterogeneous"
            raise BadInput("params.epochs_by_task", ", ".join(map(str, given)) or "nothing", allowed)
        for epochs in given:
            if not 1 <= epochs <= 1000:
                raise BadInput("params.epochs_by_task", epochs, "must be whole numbers from 1 to 1000")


def variant(spec: RunSpec, basic: str | None = None) -> str:
    """The settings as tables name them; `basic`: variant = basic, by its epochs unless given.

    A shared head is named where classes differ from task to task: printed numbers fit a head for each task.
    """
    params = settings_of(spec, BatchParams)
    of_basic = basic or f"{params.epochs} epoch{'s' if params.epochs > 1 else ''}"
    name = of_basic if params.variant == "basic" else params.variant
    return f"{name}, one head" if params.head == "shared" and spec.scenario.kind == "split" else name


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Our choices where Lai et al. leave something open."""
    head = {"shared": "one head for all tasks", "per-task": "a head for each task"}[settings_of(spec, NetworkParams).head]
    return (
        "Not given in the paper: batch size, learning rate, the head of split tasks, strides, and how often runs were "
        f"repeated. Ours: {head}, the learning rates and batch sizes of the runs below, "
        f"{len(spec.seeds)} seeds.",
    )


def batch_size(params: BatchParams) -> int:
    """Examples in a batch; no task may have fewer."""
    return params.batch_size


def derived(params: BatchParams, facts: PublicSizes) -> str:
    """The settings in numbers, for a task of average size."""
    batches = int(facts.task_size) // params.batch_size
    steps = params.steps if params.variant == "balanced" else batches * params.epochs
    batches_text = f"{batches:,} batches of {params.batch_size} in a task, one of them kept for good."
    return batches_text if params.variant == "heterogeneous" else f"{steps:,} steps a task; {batches_text}"


def is_noised_in_every_task(spec: RunSpec, facts: PublicSizes) -> bool:
    """Whether a class gets noise in every task, also without data: one label list for all, whose classes all compete."""
    has_one_list = spec.labels == "prior-const" and not spec.params.is_task_given and facts.n_tasks > 1
    return has_one_list and not isinstance(spec.scenario, Permuted)


LABELS: tuple[LabelSetting, ...] = ("prior", "prior-const", "data", "dp-learned")
# What the cards of this family have in common, and those of all methods that train a whole network.
card = partial(MethodCard, scenarios=WITHOUT_CLIENTS)
network_card = partial(card, packages=("torch",), ceiling="joint-network", differences=differences)


# What Lai et al. print for all methods, for those that train on fixed batches, and for those that train on sums.


SOURCE = "Lai et al. 2022"
_TASKS = {
    ("permuted", "mnist"): (20,), ("permuted", "cifar10"): (17,), ("split", "mnist"): (5,), ("split", "cifar10-100"): (11,)
}


def _n_tasks(spec: RunSpec) -> Values | None:
    return _TASKS.get((spec.scenario.kind, spec.data.dataset))


_SMALLER = Printed((None,), "A part of the data takes minutes instead of hours.", is_of_scale=True)
OF_ALL: PrintedPart = {
    "data.dataset": Printed(
        ("mnist", "cifar10", "cifar10-100"), "HARW is not public; other data are not the paper's.", is_of_scale=True
    ),
    "data.train_per_class": _SMALLER,
    "data.train_per_source": _SMALLER,
    "data.test_per_class": Printed((None,), "Fewer test examples take less time.", is_of_scale=True),
    "scenario.tasks": Printed(_n_tasks, "Fewer tasks take minutes instead of hours.", is_of_scale=True),
}
OPEN: PrintedPart = {
    "seeds": "How often runs were repeated is not given.",
    "data.backbone": "Strides, padding, normalisation and first weights of the networks are not given.",
    "params.head": "Whether tasks of different classes share a head is not said.",
    "params.learning_rate": "The step size is not given.",
}
BATCHES: PrintedPart = OPEN | {
    "params.variant": Printed(("basic", "balanced", "heterogeneous"), "No other schedule is printed."),
    "params.epochs": Printed((1, 2, 3, 5), "Another number of passes over a task."),
    "params.epochs_by_task": Printed(
        (None, (5, 5, 5, 1), (5, 5, 1, 5), (5, 1, 5, 5), (1, 5, 5, 5)),
        "Printed are five passes over recordings at 5, 10 and 20 Hz, and one at 50 Hz.",
    ),
    "params.memory_pick": Printed(("random",), "The last batch of a task is what code of the same group keeps."),
    "params.ref_batches": Printed((1,), "More stored batches make the memory's gradient steadier."),
    "params.batch_size": "The batch size is not given, nor what becomes of a rest that fills no batch; ours is left out.",
    "params.steps": "How many steps the balanced variant takes is not given.",
}
RELEASED_ONCE = Departure(
    "", "three draws of noise for all records, steps and tasks", "each task is released once, with noise of its own",
    "Subtracting two records that share a noise removes it.",
)
LINEAR = Departure(
    "", "a network trained whole, with an auto-encoder as its first layer",
    "linear classifiers on features that depend on no private data",
    "What a release says of features stays true while the classifier learns.",
)
ALWAYS_PROJECTED: PrintedPart = {
    "params.projection": Printed(("always",), "A-GEM's own code leaves a step alone that does the memory no harm.")
}
READOUT: PrintedPart = {
    **ALWAYS_PROJECTED,
    **{name: why for name, why in OPEN.items() if name != "data.backbone"},
    "params.steps": "Steps on a release cost nothing; the paper's single pass is no limit.",
}


# What the paper prints of one method: that of further groups of settings, too.
printed = partial(printed_by, SOURCE, OF_ALL)
