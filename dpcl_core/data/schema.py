"""The schema of the user's own data: declared public facts, so that nothing must be read from private rows."""

import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Interval, MaxLen, MinLen

from dpcl_core.data import files
from dpcl_core.data.card import DatasetCard, Feature
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.fields import in_toml
from dpcl_core.spec import Checked, Settings, parameter, validated

NAME = "schema.toml"
ORIGIN = ".origin"  # beside data that were taken in: a digest of where they came from
DOUBT = (
    "say --header if the first line names the columns, which are then listed, or --no-header if it is a row of data; a file "
    "in UTF-16 must be saved as UTF-8 first"
)
CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")  # would break a line of a list, or cannot be written as UTF-8
_MAX_BYTES = 2**20
_N_TRAIN = "# About how many training examples there are. A number of your choice, not an exact count of them."
_CLASSES = (
    "# Every label, in order. Training rows with another one are left out; without this line they are candidates\n"
    "# for a list of labels learned under differential privacy (labels = dp-learned)."
)


def _in_one_line(name: str) -> str:
    if CONTROL.search(name):
        raise ValueError("must be in one line, without control characters")
    return name


_Name = Annotated[str, Checked(_in_one_line)]
_Word = Annotated[_Name, MinLen(1)]


@dataclass(frozen=True, kw_only=True)
class Columns(Settings):
    """Which column of a table has which role; the others are its features."""

    target: _Name | None = parameter(None, description="The column to predict; its values are the labels.")
    text: _Name | None = parameter(None, description="The column of texts to learn from; no other column is a feature then.")
    source: _Name | None = parameter(None, description="The column that says where a row comes from, such as a site.")
    person: _Name | None = parameter(None, description="The column that names the person of a row, who is then protected.")
    time: _Name | None = parameter(None, description="The column of dates; rows of one month are one source.")

    @property
    def roles(self) -> dict[str, str]:
        """The column of each role that has one."""
        return {role: column for role, column in asdict(self).items() if column is not None}


@dataclass(frozen=True, kw_only=True)
class Declared(Settings):
    """What is public about a feature: bounds of a number, or the list of categories, or that it is text; else a number."""

    low: float | None = parameter(None, allow_inf_nan=False, description="Smallest value; smaller ones count as this one.")
    high: float | None = parameter(None, allow_inf_nan=False, description="Largest value; larger ones count as this one.")
    categories: Annotated[tuple[_Word, ...], MaxLen(1000)] = parameter(
        (), description="The words that may occur; any other counts as one more category."
    )
    text: bool = parameter(False, description="Words of no list, which are hashed.")

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError("must have both low and high, or neither")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError("must have a low below its high")
        if (self.low is not None) + bool(self.categories) + self.text > 1:
            raise ValueError("must have bounds, categories or text = true, and only one of them")


@dataclass(frozen=True, kw_only=True)
class Schema(Settings):
    """The fields of `schema.toml`, all public; missing ones come from the test part."""

    title: Annotated[_Word, MaxLen(80)] | None = parameter(None, description="What the data are called.")
    classes: tuple[_Word, ...] = parameter((), description="Every label, in order.")
    n_train: Annotated[int, Ge(1)] | None = parameter(
        None, description="About how many training examples there are; empty: four for each test example."
    )
    sources: tuple[_Word, ...] = parameter((), description="Every source, in order.")
    held_out: float | None = parameter(
        None, gt=0, lt=1, allow_inf_nan=False, description="Share of a single file that is the public test part."
    )
    kind: Literal["text", "table", "embedding"] | None = parameter(
        None, description="What a table holds; empty: texts if there is a column of texts, else features."
    )
    first_line: Literal["names", "data"] | None = parameter(
        None, description="What the first line of a CSV or TSV file is. data: columns are called column1, column2, ..."
    )
    columns: Columns = Columns()
    features: dict[_Name, Declared] = field(
        default_factory=dict, metadata={"description": "The features of a table by column; empty: every column."}
    )
    per_person: Annotated[int, Interval(ge=1, le=1000)] = parameter(
        1, description="How many rows of one person count, where a column names the person; others are left out."
    )
    coins: Literal[1, 2] | None = parameter(
        None, description="Version of the rule by which rows are public; 1: of data that were taken in before it was mended."
    )


def with_columns(card: DatasetCard, schema_fields: Schema) -> DatasetCard:
    """The card with the roles and features of a table's columns."""
    features = tuple(
        Feature(name, one.low, one.high, one.categories, one.text) for name, one in schema_fields.features.items()
    )
    roles = tuple(schema_fields.columns.roles.items())
    return replace(
        card, roles=roles, features=features, per_person=schema_fields.per_person, coins=schema_fields.coins or card.coins,
        has_names=schema_fields.first_line != "data", is_named=schema_fields.first_line == "names",
    )  # fmt: skip


def schema_toml(fields: Schema, undeclared: Sequence[str] = ()) -> str:
    """A schema as TOML, with a comment on each field, to be edited by hand; `read` gives it back.

    `undeclared`: features of which nothing is declared; each becomes a comment to be filled in.
    """
    lines = [
        "# What is public about these data. Errors, titles, sizes and figures depend on this and on the test part alone.",
        "# Edit it by hand; write nothing here that only the training rows reveal.",
    ]
    is_data = fields.first_line == "data"
    meant = "is a row of data: columns are called column1, column2, ..." if is_data else "names the columns."
    per_person = None if fields.columns.person is None else fields.per_person
    said: tuple[tuple[str, str, object], ...] = (
        ("title", "", fields.title),
        ("classes", _CLASSES, fields.classes or None),
        ("sources", "# Every source, in order.", fields.sources or None),
        ("n_train", _N_TRAIN, fields.n_train),
        ("held_out", "", fields.held_out),
        ("kind", "", fields.kind),
        ("coins", "# The rule by which rows are public. Another one would show rows that were private.", fields.coins),
        ("first_line", f"# The first line of the file {meant}", fields.first_line),
        ("per_person", "# How many rows of one person count; others are left out.", per_person),
    )
    for name, comment, value in said:
        if value is not None:
            lines += [*filter(None, [comment]), f"{name} = {in_toml(value)}"]
    if roles := [f"{role} = {in_toml(column)}" for role, column in fields.columns.roles.items()]:
        lines += ["", "[columns]", *roles]
    for name, feature in fields.features.items():
        said_of_it = {key: value for key, value in asdict(feature).items() if value != getattr(Declared(), key)}
        lines += ["", f"[features.{in_toml(name)}]", *(f"{key} = {in_toml(value)}" for key, value in said_of_it.items())]
    if undeclared:
        lines += [
            "",
            "# Features: give the bounds of numbers and the lists of categories that you know without looking at the rows.",
            "# With one feature given, columns that are not named are left out.",
        ]
        for name in undeclared:
            lines += [f"# [features.{in_toml(name)}]", "# low = 0", "# high = 100   # or categories = [...], or text = true"]
    return "\n".join(lines) + "\n"


def in_words(fields: Schema) -> str:
    """What a schema says, in one line; empty where it says nothing."""
    said = [fields.title] if fields.title is not None else []
    said += ["first line: data"] if fields.first_line == "data" else []
    said += [f"{role}: {column}" for role, column in fields.columns.roles.items()]
    if fields.columns.person is not None and fields.per_person > 1:
        said.append(f"{fields.per_person} rows of a person count")
    listed = (("label", fields.classes), ("source", fields.sources), ("feature", tuple(fields.features)))
    said += [f"{len(names):,} {what}{'s' * (len(names) != 1)} declared" for what, names in listed if names]
    if fields.n_train is not None:
        said.append(f"about {fields.n_train:,} training examples")
    if fields.held_out is not None:
        said.append(f"{fields.held_out:.0%} public")
    return " · ".join(said)


def read_schema(card: DatasetCard) -> Schema | None:
    """The schema beside the user's own data; None where there is none.

    Raises BadInput naming the file, the field and what is allowed.
    """
    with suppress(PermissionError):  # `files.find` reports it
        return next(filter(None, (in_folder(root / card.folder, card.name) for root in files.roots(card))), None)
    return None


def in_folder(folder: Path, shown: str = "") -> Schema | None:
    """The schema in a folder, if there is one. Raises BadInput as `read` does."""
    if not (folder / NAME).is_file():
        return None
    fields = parsed(folder / NAME, f"{shown or folder.name}/{NAME}")
    if fields.coins is None and (folder / ORIGIN).exists():  # taken in before there was a second rule
        fields = replace(fields, coins=1)
    return fields


def parsed(path: Path, shown: str) -> Schema:
    """The schema in a file, which messages call `shown`. Raises BadInput naming the file, the field and what is allowed."""
    allowed = "must be a TOML file with classes, n_train, sources, title"
    with instead_of(OSError, ValueError, RecursionError, say=lambda error: BadInput(shown, type(error).__name__, allowed)):
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            raise OSError("no regular file")
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    schema_fields = validated(Schema, said, shown)
    for role in ("classes", "sources"):
        names = getattr(schema_fields, role)
        if len(set(names)) < len(names):
            raise BadInput(f"{shown}.{role}", ", ".join(names[:12]), "must not name the same one twice")
    if schema_fields.sources and not schema_fields.classes:
        raise BadInput(f"{shown}.classes", "nothing", "must name every label where sources are named")
    return schema_fields
