"""The settings of a run: frozen dataclasses, which `validated` makes of tables and checks.

Pydantic is imported where tables are read and JSON is written, and nowhere else: a run in memory does without it. Where it
is not installed, as in a page of a browser, `fields` does the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

from annotated_types import Interval, MinLen

from dpcl_core.errors import BadInput, first_of
from dpcl_core.fields import form_of, in_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

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
HAS_PYDANTIC = find_spec("pydantic") is not None  # not in a page of a browser, which checks by `fields`
SMALLEST_DELTA = 1e-12  # of one row: below it, the second accountant, whose transforms round by 1e-16, checks nothing


@dataclass(frozen=True, slots=True)
class Checked:
    """A check of a value that `validated` makes after the value's type is right, or before.

    `check` gives the value to go on with. It raises ValueError with what is allowed.
    """

    check: Callable[[Any], Any]
    mode: Literal["after", "before"] = "after"

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        if self.mode == "after":
            return core_schema.no_info_after_validator_function(self.check, handler(source))
        return core_schema.no_info_before_validator_function(self.check, handler(source))


def parameter(default: object, title: str = "", description: str = "", **bounds: Any) -> Any:
    """A field of settings: its default, its title in forms ("": its name), what it means, bounds as pydantic names them."""
    if isinstance(default, float):
        bounds["allow_inf_nan"] = False
    return field(default=default, metadata={"title": title or None, "description": description, **bounds})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of a run's settings. `validated` checks what a user gives; the constructor takes what is already right."""

    __pydantic_config__: ClassVar[Mapping[str, object]] = {"extra": "forbid", "validate_default": True}

    def to_json(self, include: set[str] | None = None) -> str:
        """The settings as JSON that `validated` reads back; infinity is text. `include`: these fields alone."""
        if not HAS_PYDANTIC:
            asked = (one.name for one in fields(self) if include is None or one.name in include)
            return in_json({name: getattr(self, name) for name in asked})
        from pydantic_core import to_json

        return to_json(self, include=include, inf_nan_mode="strings").decode()

    def jsonable(self) -> dict[str, Any]:
        """The settings as tables, lists, numbers and text."""
        return cast("dict[str, Any]", json.loads(self.to_json()))


S = TypeVar("S", bound=Settings)
T = TypeVar("T")


def updated(settings: S, **fields: Any) -> S:
    """The settings with other values in these fields, which every such class has."""
    return replace(settings, **fields)


def fields_of(settings: type[Settings]) -> dict[str, Field[Any]]:
    """The fields of settings by name; `metadata` has their descriptions."""
    return {one.name: one for one in fields(settings)}


@cache
def reader(model: Any) -> TypeAdapter[Any]:
    """What makes values of a type out of tables: `validate_python`, whose errors `errors.first_of` reads."""
    if not HAS_PYDANTIC:
        return cast("TypeAdapter[Any]", form_of(model))
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def json_schema(model: type[Settings]) -> dict[str, Any]:
    """The JSON schema of settings."""
    return reader(cast("Any", model)).json_schema()


def validated(model: type[T], given: object, prefix: str = "", known: Sequence[str] = ()) -> T:
    """Settings or a card, made of a table. Raises BadInput for the first wrong value, as `errors.first_of` names it."""
    try:
        made: T = reader(cast("Any", model)).validate_python(given)
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        raise first_of(cast("ValidationError", error), prefix, known) from error
    return made


@dataclass(frozen=True, kw_only=True)
class Params(Settings):
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


@dataclass(frozen=True, kw_only=True)
class ScenarioSpec(Settings):
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
    def classes_return(self) -> bool:
        """Whether a class can have examples in several tasks."""
        return True

    @property
    def is_task_given(self) -> bool:
        """Whether a test example comes with its task, whatever the method."""
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


@dataclass(frozen=True, kw_only=True)
class DataSpec(Settings):
    """The data: which dataset, how much of it, and the public network that turns it into features."""

    dataset: str = parameter("digits", description="A dataset of the catalog, or own:NAME for a folder of yours.")
    train_per_class: Annotated[int, Interval(ge=1, le=10**9)] | None = parameter(
        None,
        description="Keep about this many training examples of each class (sentences of each source), each by a public coin "
        "of its own bytes; empty: all.",
    )
    train_per_source: Annotated[int, Interval(ge=1, le=10**9)] | None = parameter(
        None,
        description="Keep about this many training examples of each source instead (a member of a combined dataset, a "
        "style, a rate), each by the same coin; empty: all.",
    )
    test_per_class: Annotated[int, Interval(ge=1, le=10**9)] | None = parameter(
        None, description="Keep at most this many test examples of each class; empty: all."
    )
    backbone: str = parameter("pixels", description="Frozen public network that turns an example into features.")
    resolution: int | None = parameter(
        None,
        ge=1,
        description="Side in pixels at which the network reads pictures, where it has a choice; empty: as it was trained. "
        "Fewer pixels are quicker and show less.",
    )
    axes: int | None = parameter(
        None,
        ge=0,
        description="Features are taken along this many public axes, where the network has some; empty: by a public rule of "
        "ε and of the size of a class; 0: as the network gives them.",
    )

    @property
    def is_subset(self) -> bool:
        """Whether only a hash-selected part of the training examples is used."""
        return self.train_per_class is not None or self.train_per_source is not None

    def __post_init__(self) -> None:
        if self.train_per_source is not None and self.train_per_class is not None:
            allowed = "must be empty where data.train_per_class is set; clear one of the two"
            raise BadInput("data.train_per_source", self.train_per_source, allowed)


def _budget(value: object) -> float:
    """A number above 0, or infinity, also spelled ∞. Raises ValueError for anything else."""
    try:
        # `float` reads "inf" and "infinity" in any case.
        number = math.inf if str(value).strip() == "∞" else float(cast("float | str", value))
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not number > 0:  # also refuses NaN
        raise ValueError("must be a number above 0, or inf for no noise")
    return number


Epsilon = Annotated[float, Checked(_budget, "before")]


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


@dataclass(frozen=True, kw_only=True)
class PrivacySpec(Settings):
    """The privacy settings: budgets, adjacency, noise source."""

    epsilons: Annotated[tuple[Epsilon, ...], Checked(_bounded), Checked(_distinct)] = parameter(
        (1.0, 8.0), min_length=1, max_length=32, description="One model each; inf: no noise."
    )
    delta: float = parameter(1e-5, gt=0, lt=1, description="A small slack beside epsilon; keep below 1/people.")
    adjacency: Adjacency = parameter(
        "add-remove", description="Neighbours differ by one example left out (their number is public), or by one replaced."
    )
    noise: NoiseSource = parameter(
        "release", description="release: fresh from the operating system, never recorded. seeded: repeatable, for teaching."
    )
    label_share: float = parameter(
        0.1,
        ge=0.001,
        le=0.999,
        description="Share of epsilon that pays for the list of labels, where labels = dp-learned.",
    )

    @property
    def usual_epsilon(self) -> float:
        """The budget that is shown first: 1, else the largest finite one."""
        finite = [epsilon for epsilon in self.epsilons if math.isfinite(epsilon)]
        return 1.0 if 1.0 in finite else max(finite or self.epsilons)


def _whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("must be a whole number")
    return value


Seed = Annotated[int, Checked(_whole, "before"), Interval(ge=0, lt=2**32)]


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One model of a run's grid: a privacy budget and a seed."""

    epsilon: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class RunSpec(Settings):
    """The settings of a run; nothing about where, when or on what device. `checks.parse` makes one of tables."""

    method: str
    params: Params
    data: DataSpec = DataSpec()
    scenario: ScenarioSpec
    labels: LabelSetting = parameter("prior-const", description="Where the classifier's list of labels comes from.")
    public_labels: Annotated[tuple[str, ...], MinLen(1), Checked(_distinct)] | None = parameter(
        None, description="Class names assumed public; examples of other classes are dropped. Empty: all classes."
    )
    privacy: PrivacySpec = PrivacySpec()
    tuned: Tuned = parameter(
        "no", description="On which data these settings were tuned, by your word; the statement says so."
    )
    seeds: Annotated[tuple[Seed, ...], Checked(_distinct)] = parameter(
        (0, 1, 2, 3, 4), min_length=1, max_length=100, description="One model each: the order of classes and other draws."
    )

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
        return sha256(self.to_json().encode()).hexdigest()[:16]
