"""The settings of a run: immutable and bounded, with a TOML/JSON round trip and a stable digest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dpcl_core.errors import BadInput, first_of

LabelSetting = Literal["data", "prior", "prior-const", "dp-learned"]
LABELS: dict[str, str] = {  # names for readers
    "data": "labels from the data (not DP)",
    "prior": "public list per task",
    "prior-const": "one public list",
    "dp-learned": "list learned under DP",
}
Adjacency = Literal["add-remove", "replace"]
NoiseSource = Literal["release", "seeded"]
Inputs = Literal["features", "images", "text"]
Tuned = Literal["no", "public", "private"]
Recurrence = Literal["once", "every"]
Unit = Literal["example", "user"]
LARGEST_EPSILON = 1_000_000  # of a budget
SMALLEST_DELTA = 1e-12  # of one row: below it, the accountants' own rounding (1e-16 a transform) moves epsilon


class Spec(BaseModel):
    """Base of all settings: immutable, without unknown fields; infinity survives a JSON round trip."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", validate_default=True)


def written_number(value: object) -> object:
    """A number of JSON, or "inf", as it is. Raises ValueError for what only some readers take for one."""
    if isinstance(value, bool) or (isinstance(value, str) and value != "inf"):
        raise ValueError('must be a number, or "inf"')
    return value


def parameter(default: object, title: str, text: str, **bounds: Any) -> Any:
    """A setting of a method: its default, its title in forms ("": its name), what it means, and the bounds of a number."""
    if isinstance(default, float):
        bounds["allow_inf_nan"] = False
    return Field(default, title=title or None, description=text, **bounds)


class Params(Spec):
    """Base of every method's own settings; the method's card names the subclass."""

    @property
    def inputs(self) -> Inputs:
        """The method's inputs under these settings: features of a frozen network, or the examples themselves."""
        return "features"

    @property
    def text_length(self) -> int:
        """Maximum tokens of each text, for methods that read texts; 0 for others."""
        return 0

    @property
    def shares_batches(self) -> bool:
        """Whether the models of one seed are trained on the same random batches, so that their epsilons do not add up."""
        return False

    @property
    def is_noise_given(self) -> bool:
        """Whether the noise is set, so that epsilon follows from it, whatever budget is asked for."""
        return False

    @property
    def is_total_asked(self) -> bool:
        """Whether epsilon is asked for all that is done to a person, and not for one task or one token of it."""
        return not self.is_noise_given

    @property
    def is_task_given(self) -> bool:
        """Whether a test example comes with its task, so that only the task's own labels compete for it."""
        return False


class ScenarioSpec(Spec):
    """Base of every scenario's own settings; the scenario's card names the subclass."""

    kind: str

    @property
    def recurrence(self) -> Recurrence:
        """Whether a privacy unit can be in only one task ("once") or in every task; known before any data are read."""
        return "once"

    @property
    def by_coin(self) -> bool:
        """Whether a public keyed hash of each example's bytes decides its task or client."""
        return False

    @property
    def reads_lists(self) -> bool:
        """Whether a task's own list of labels is read off its training examples, and so is not public."""
        return False

    @property
    def n_users(self) -> int | None:
        """Public number of clients that hold the training examples; None if the data have no clients."""
        return None

    def sources_used(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """The dataset's sources whose examples occur in a task."""
        return sources

    def pooled(self, n_classes: int, sources: tuple[str, ...]) -> ScenarioSpec | None:
        """The same tasks for someone who holds all examples, in any order; None where there is no such stream."""
        return self

    def label_names(self, classes: tuple[str, ...]) -> tuple[str, ...]:
        """The label names of the tasks, on a dataset with these classes."""
        return classes


class DataSpec(Spec):
    """The data: which dataset, how much of it, and the public network that turns it into features."""

    dataset: str = Field("digits", description="A dataset of the catalog, or own:NAME for a folder of yours.")
    train_per_class: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        None,
        description="Keep about this many training examples of each class (sentences of each source), each by a public coin "
        "of its own bytes; empty: all.",
    )
    train_per_source: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        None,
        description="Keep about this many training examples of each source instead (a member of a combined dataset, a "
        "style, a rate), each by the same coin; empty: all.",
    )
    test_per_class: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        None, description="Keep at most this many test examples of each class; empty: all."
    )
    backbone: str = Field("pixels", description="Frozen public network that turns an example into features.")
    resolution: int | None = Field(
        None,
        ge=1,
        description="Side in pixels at which the network reads pictures, where it has a choice; empty: as it was trained. "
        "Fewer pixels are quicker and show less.",
    )
    axes: int | None = Field(
        None,
        ge=0,
        description="Features are taken along this many public axes, where the network has some; empty: by a public rule of "
        "ε and of the size of a class; 0: as the network gives them.",
    )

    @property
    def is_subset(self) -> bool:
        """Whether only a hash-selected part of the training examples is used."""
        return self.train_per_class is not None or self.train_per_source is not None

    @field_validator("train_per_source")
    @classmethod
    def _one_cap(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("train_per_class") is not None:
            raise ValueError("must be empty where data.train_per_class is set; clear one of the two")
        return value


def _budget(value: object) -> float:
    """A number above 0, or infinity, also spelled ∞. Raises ValueError for anything else."""
    try:
        number = (
            math.inf if str(value).strip() == "∞" else float(cast("float | str", value))
        )  # reads "inf" and "infinity" in any case
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not number > 0:  # also refuses NaN
        raise ValueError("must be a number above 0, or inf for no noise")
    return number


Epsilon = Annotated[float, BeforeValidator(_budget)]


def _distinct(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(set(values)) != len(values):
        raise ValueError("must not name the same value twice")
    return values


def _bounded(budgets: tuple[float, ...]) -> tuple[float, ...]:
    """Raises BadInput for a finite budget above a million."""
    for budget in budgets:
        if LARGEST_EPSILON < budget < math.inf:
            allowed = f"must be at most {LARGEST_EPSILON:,}, or inf for no noise: a larger budget protects nobody"
            capped = (one if math.isinf(one) else min(one, float(LARGEST_EPSILON)) for one in budgets)
            raise BadInput("privacy.epsilons", budget, allowed, {"privacy.epsilons": tuple(dict.fromkeys(capped))})
    return budgets


class PrivacySpec(Spec):
    """The privacy settings: budgets, adjacency, noise source."""

    epsilons: Annotated[tuple[Epsilon, ...], AfterValidator(_bounded), AfterValidator(_distinct)] = Field(
        (1.0, 8.0), min_length=1, max_length=32, description="One model each; inf: no noise."
    )
    delta: float = Field(
        1e-5, gt=0, lt=1, allow_inf_nan=False, description="A small slack beside epsilon; keep below 1/people."
    )
    adjacency: Adjacency = Field(
        "add-remove", description="Neighbours differ by one example left out (their number is public), or by one replaced."
    )
    noise: NoiseSource = Field(
        "release", description="release: fresh from the operating system, never recorded. seeded: repeatable, for teaching."
    )
    label_share: float = Field(
        0.1,
        ge=0.001,
        le=0.999,
        allow_inf_nan=False,
        description="Share of epsilon that pays for the list of labels, where labels = dp-learned.",
    )

    @property
    def usual_epsilon(self) -> float:
        """The budget that is shown first: 1, else the largest finite one."""
        finite = [epsilon for epsilon in self.epsilons if math.isfinite(epsilon)]
        return 1.0 if 1.0 in finite else max(finite or self.epsilons)


Seed = Annotated[int, Field(ge=0, lt=2**32, strict=True)]  # strict: true is no number


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One model of a run's grid: a privacy budget and a seed."""

    epsilon: float
    seed: int


# The catalogs that map a method or scenario to its settings model; imported late, because they import this module.
_CATALOGS = {"params": "dpcl_core.methods.catalog", "scenario": "dpcl_core.scenarios.catalog"}


def settings_model(field: Literal["params", "scenario"], name: str) -> type[Spec]:
    """The settings of the method or scenario of this name. Raises BadInput naming the known ones."""
    card = import_module(_CATALOGS[field]).card(name)
    return cast(type[Spec], card.params if field == "params" else card.settings)


S = TypeVar("S", bound=Spec)


def validated(model: type[S], given: object, prefix: str = "", known: Sequence[str] = ()) -> S:
    """The settings as their model. Raises BadInput for the first wrong one; arguments as `errors.first_of` takes them."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise first_of(error, prefix, known) from error


def _read(field: Literal["params", "scenario"], name: str, given: object) -> Spec:
    model = settings_model(field, name)
    if isinstance(given, Mapping):
        return validated(model, given, field, [f"{field}.{known}" for known in model.model_fields])
    if type(given) is not model:
        raise BadInput(field, type(given).__name__, f"must be settings of {name}: {model.__name__} or a table of its fields")
    return given


class RunSpec(Spec):
    """The settings of a run; nothing about where, when or on what device.

    `params` and `scenario` are the settings of the named method and scenario kind: as their models, as plain tables
    (validated by these models), or left out (the models' defaults).
    """

    method: str
    params: SerializeAsAny[Params] = Params()  # replaced by the method's own defaults
    data: DataSpec = DataSpec()
    scenario: SerializeAsAny[ScenarioSpec]
    labels: LabelSetting = Field("prior-const", description="Where the classifier's list of labels comes from.")
    public_labels: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_distinct)] | None = Field(
        None, description="Class names assumed public; examples of other classes are dropped. Empty: all classes."
    )
    privacy: PrivacySpec = PrivacySpec()
    tuned: Tuned = Field("no", description="On which data these settings were tuned, by your word; the statement says so.")
    seeds: Annotated[tuple[Seed, ...], AfterValidator(_distinct)] = Field(
        (0, 1, 2, 3, 4), min_length=1, max_length=100, description="One model each: the order of classes and other draws."
    )

    @model_validator(mode="before")
    @classmethod
    def _with_settings(cls, given: object) -> object:
        """Validates plain tables as the models of the method and scenario; refuses settings of another one."""
        if not isinstance(given, Mapping) or not isinstance(given.get("method"), str):
            return given
        fields = dict(given)
        fields["params"] = _read("params", fields["method"], fields.get("params", {}))
        scenario = fields.get("scenario", {})
        kind = scenario.get("kind") if isinstance(scenario, Mapping) else getattr(scenario, "kind", None)
        if isinstance(kind, str):
            fields["scenario"] = _read("scenario", kind, scenario)
        return fields

    def cells(self) -> Iterator[Cell]:
        """Every model of the run, budgets outermost."""
        return (Cell(epsilon, seed) for epsilon in self.privacy.epsilons for seed in self.seeds)

    @property
    def n_cells(self) -> int:
        """The number of models of the run."""
        return len(self.privacy.epsilons) * len(self.seeds)

    @property
    def reads_labels(self) -> bool:
        """Whether lists of labels are read from the training examples without noise: no bound holds then."""
        return self.labels == "data" or (self.labels == "prior" and self.scenario.reads_lists)

    def digest(self) -> str:
        """The SHA-256 digest of the settings (16 hexadecimal digits), the same on any machine."""
        return sha256(self.model_dump_json().encode()).hexdigest()[:16]
