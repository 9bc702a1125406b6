"""Dataset cards: facts available before a file is read, such as the source and the published sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, NamedTuple

from dpcl_core import paths
from dpcl_core.data.texts import tags_of
from dpcl_core.errors import BadInput, instead_of
from dpcl_core.spec import DataSpec, validated

Shape = tuple[int, int, int]
Kind = Literal["image", "sensor", "text", "tagged", "table", "embedding"]
Writing = Literal["", "comma", "thousands", "ymd", "dmy", "mdy"]
SAMPLES, AXES = 100, 3  # of a window of a sensor
HELD_OUT = 0.2  # share of the user's own data that is for testing
# Endings of files that are read as pictures.
PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of a table that is read as numbers, by the public facts declared of it.

    Either the bounds `low` and `high` of a number, or the `categories` of a word; neither: a number if `is_text` is False,
    else words that are hashed. `written`: how the column writes its numbers, as its public cells have them: with a decimal
    comma, with commas between thousands, or as dates in this order; empty: with a point, as programs do.
    """

    name: str
    low: float | None = None
    high: float | None = None
    categories: tuple[str, ...] = ()
    is_text: bool = False
    written: Writing = ""


@dataclass(frozen=True, slots=True)
class Hub:
    """A dataset's repository on the Hugging Face hub, and the files of each split as shell patterns."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    repository: str
    train: str
    test: str | None = None


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """Description of a dataset for users and its loader. All of it is public.

    `n_train` and `n_test`: sizes of the full published set. Where that has no test part, `held_out` is the share of each
    class that this program holds out for testing, and the two sizes are nominal. `is_balanced`: classes are equally large.
    For the user's own data, known only by reading, `n_classes`, `n_train` and `n_test` are 0.
    `classes`: names in label order, empty where only the file has them. `shape`: height, width, channels, None where images
    differ. `label_column`: a text column with the label where the file has no integer one; `name_column`: the class names.
    `stands_in_for`: title of the dataset that this one replaces. `members`: names of the sets that a combined one joins.
    `kind`: pictures, windows of a sensor, texts, sentences whose words are tagged, rows of a table, or embeddings.
    `scaled_by`: how windows are scaled to [-1, 1], by a public range or by mean and variance of the training part.
    `files_of`: the set whose files it reads. `limits`: what is not protected with these data. `text_columns`: the columns
    that make up a text, one per line. `sources`: its parts, in the order of the tasks, with the classes of each; empty where
    only the file has them, or every part can have every class. `made_per_source`: texts per source of a corpus generated on
    this computer, 0 for data that are read. `may_show`: texts are synthetic or a public benchmark, so that pages may show
    them token by token. Of a table alone: `roles` has the file's column of each role (`sheets.CANONICAL`), `features` what a
    schema declares of the others, `per_person` how many rows of one person count at most, where a column names the person;
    `has_names`: the first line of a CSV or TSV file names its columns; `is_named`: its owner has said so. `columns` and
    `separator`: of a file without such a line, as its public lines have them. `coins`: the version of the rule by which rows
    are public or go to a task; 1 for data that were taken in before every cell of a row counted alike.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    name: str
    title: str
    summary: str
    source: str
    licence: str
    n_classes: int
    n_train: int
    n_test: int
    classes: tuple[str, ...] = ()
    shape: Shape | None = None
    held_out: float | None = None
    is_balanced: bool = False
    hub: Hub | None = None
    label_column: str = "label"
    name_column: str = "label_name"
    stands_in_for: str | None = None
    members: tuple[str, ...] = ()
    kind: Kind = "image"
    scaled_by: Literal["range", "training"] = "range"
    files_of: str | None = None
    limits: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ("text",)
    sources: tuple[tuple[str, tuple[str, ...]], ...] = ()
    made_per_source: int = 0
    may_show: bool = True
    roles: tuple[tuple[str, str], ...] = ()
    features: tuple[Feature, ...] = ()
    per_person: int = 1
    has_names: bool = True
    is_named: bool = False
    columns: tuple[str, ...] = ()
    separator: str = ""
    coins: Literal[1, 2] = 2

    @property
    def has_people(self) -> bool:
        """Whether a column names the person of each row, who is then the privacy unit."""
        return any(role == "person" for role, _ in self.roles)

    @property
    def rows_per_unit(self) -> int:
        """How many training rows a privacy unit has at most, where a column names the person of each; else 1."""
        return self.per_person if self.has_people else 1

    @property
    def is_own(self) -> bool:
        return self.name.startswith("own:")

    @property
    def folder(self) -> str:
        """Name of its folder under `DPCL_DATA` or the download cache."""
        return self.name.removeprefix("own:") if self.is_own else (self.files_of or self.name).replace("-", "_")

    @property
    def n_values(self) -> int | None:
        """Number of values of an example; None where examples differ in size."""
        return SAMPLES * AXES if self.kind == "sensor" else math.prod(self.shape) if self.shape else None


# Cards that are data, not code: the tables of a TOML file in `assets/cards/`, one a card. Errors name file and key.


Table = Mapping[str, object]


def tables(file: str) -> dict[str, Table]:
    """The tables of a file by name, in its order. A table that is `like` another inherits its keys.

    Raises BadInput naming the file, and the table where it is one.
    """
    allowed = "must be a TOML file"
    with instead_of(OSError, ValueError, say=lambda error: BadInput(file, type(error).__name__, f"{allowed}: {error}")):
        written = paths.asset_table(f"cards/{file}")
    full: dict[str, Table] = {}
    for name, table in written.items():
        if not isinstance(table, dict):
            raise BadInput(f"{file}: {name}", table, f"must be a table, such as [{name}]")
        other = table.pop("like", None)
        if other is not None and str(other) not in full:
            raise BadInput(f"{file}: {name}.like", other, "must be the name of a table above this one")
        full[name] = {**full.get(str(other), {}), **table}
    return full


class Caps(NamedTuple):
    """Largest numbers of examples kept: training and test examples per class, training examples per source (None: all)."""

    train_per_class: int | None = None
    test_per_class: int | None = None
    train_per_source: int | None = None

    @classmethod
    def of(cls, data: DataSpec) -> Caps:
        """The caps in the settings."""
        return cls(data.train_per_class, data.test_per_class, data.train_per_source)

    @property
    def train(self) -> tuple[int | None, bool]:
        """The training cap, and whether it is one per source; settings allow one of the two."""
        per_source = self.train_per_source
        return (self.train_per_class, False) if per_source is None else (per_source, True)


UNCAPPED = Caps()


_FILE = "datasets.toml"
# What a set of each kind leaves unprotected, a person's own ones as well.
_TEXT = (
    "a person, only a single text: one may have written several, or be named in several, in one task or in many",
    "how long a text is, where a method works on noisy copies of its tokens",
)
_ROW = ("a person, only a single row: one may have several, in one task or in many",)
LIMITS: Mapping[Kind, tuple[str, ...]] = {
    "image": (),
    "sensor": (
        "a person, only a single window: one contributes many windows, windows of one recording may overlap, and one signal "
        "may occur at several rates",
    ),
    "text": _TEXT,
    "tagged": _TEXT,
    "table": _ROW,
    "embedding": (*_ROW, "the public network that made the embeddings, if it was trained on these people"),
}


@dataclass(frozen=True, slots=True)
class _Written:
    """The keys of a table from which fields are derived; all other keys are fields of the card.

    `tags`: types of names, which become BIO tags. `domains`: sources that can all hold every class. `sources`: the classes
    of each. `titled_classes`: the labels of a set with `members` carry their titles.
    """

    source: str
    kind: Kind = "image"
    classes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    titled_classes: bool = False


def _catalogue() -> dict[str, DatasetCard]:
    """The cards of the file, in its order; later ones may combine earlier ones.

    Raises BadInput naming file, table, key and what is allowed.
    """
    cards = dict[str, DatasetCard]()
    derived = {one.name for one in fields(_Written)}
    for name, written in tables(_FILE).items():
        table = validated(_Written, {key: value for key, value in written.items() if key in derived}, f"{_FILE}: {name}")
        classes = table.classes or (tags_of(table.tags) if table.tags else ())
        sources = dict.fromkeys(table.domains, classes) or table.sources
        classes = classes or tuple(label for labels in sources.values() for label in labels)
        found: dict[str, object] = {
            **{key: value for key, value in written.items() if key not in derived},
            "name": name,
            "source": table.source,
            "kind": table.kind,
            "classes": classes,
            "sources": tuple(sources.items()),
            "limits": (*LIMITS[table.kind], *table.limits),
        }
        if other := set(table.members) - set(cards):
            raise BadInput(f"{_FILE}: {name}.members", ", ".join(sorted(other)), "must be names of tables above this one")
        if members := [cards[member] for member in table.members]:
            titled = [(f"{one.title}: " if table.titled_classes else "", one.classes) for one in members]
            found |= {
                "members": table.members,
                "source": "; ".join([table.source, *(one.title for one in members)]),
                **{name: sum(getattr(one, name) for one in members) for name in ("n_classes", "n_train", "n_test")},
                "classes": tuple(title + label for title, labels in titled for label in labels),
                "may_show": all(one.may_show for one in members),
            }
        elif classes:
            found["n_classes"] = len(classes)
        cards[name] = validated(DatasetCard, found, f"{_FILE}: {name}")
    return cards


CARDS: Mapping[str, DatasetCard] = _catalogue()
