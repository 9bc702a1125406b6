"""What was understood of the user's own data: what each column means, and what was assumed. Public facts alone."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np

from dpcl_core import paths
from dpcl_core.data import catalog, copying, files, intake, load, outline, schema, sheets, table_features, tables
from dpcl_core.data.card import HELD_OUT, DatasetCard, Feature, Kind, Writing
from dpcl_core.data.dataset import AS_READ, Dataset, Images
from dpcl_core.data.sheets import EMBEDDING_COLUMN
from dpcl_core.errors import BadInput, DataMissing, instead_of
from dpcl_core.spec import DataSpec, fields_of, updated

EARLIER = (
    "An earlier version took these data in, and its rule says which rows are public: rows once shown never become private. "
    "By that rule the first line of JSON lines, or one empty cell of a typed column, could move other rows."
)
_LINES = (
    "A private value of several lines cannot be read from CSV: its row is left out. Parquet and JSON lines can hold it."
)
_WRITTEN: dict[Writing, str] = {
    "": "number of any size, squashed", "comma": "number with a decimal comma, squashed",
    "thousands": "number with commas between thousands, squashed", "ymd": "date (year, month, day), in years",
    "dmy": "date (day, month, year), in years", "mdy": "date (month, day, year), in years",
}  # fmt: skip
Use = Literal["target", "text", "source", "person", "time", "feature", "unused"]
_ROLES = {column: cast(Use, role) for role, column in sheets.CANONICAL.items()}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table as the file calls it, what it is used as, and for a feature how it becomes numbers."""

    name: str
    use: Use
    read_as: str = ""


@dataclass(frozen=True, slots=True)
class Understood:
    """`columns` is empty for data without columns of the user's own; `undeclared`: features that a schema could describe.

    `assumed`: what holds for lack of a schema, one sentence each. `n_values`: numbers of an example as features, 0 where a
    network makes them.
    """

    kind: Kind
    columns: tuple[Column, ...]
    undeclared: tuple[str, ...]
    n_values: int
    assumed: tuple[str, ...]


def understood(outlined: outline.Outline) -> Understood:
    """What was understood of these files. Raises BadInput as reading them does."""
    card, (first, *_) = outlined.train.contents.card, outlined.train.contents.paths
    columns, read_as, n_values = list[Column](), dict[str, str](), 0
    assumed = [*_read_as(card, first, outlined)]
    if card.kind in ("text", "table", "embedding") and not first.is_dir():
        names = sheets.header(first, card)
        called = {sheets.CANONICAL[role]: column for role, column in card.roles}
        if card.kind == "table":
            rows = tables.take_rows(outlined.test.contents, outlined.test.rows)
            encoding = table_features.planned_columns(card, rows, card.name)
            assumed += table_features.unread_cells(rows, encoding.features)
            n_values = sum(encoding.widths)
            read_as = {one.name: described(one, n) for one, n in zip(encoding.features, encoding.widths, strict=True)}
        elif card.kind == "embedding":
            embedded = [EMBEDDING_COLUMN] if EMBEDDING_COLUMN in names else [name for name in names if name not in _ROLES]
            read_as = dict.fromkeys(embedded, "numbers of an embedding, scaled to length 1")
        for name in names:
            use = _ROLES.get(name) or ("feature" if name in read_as else "unused")
            columns.append(Column(called.get(name, name), use, read_as.get(name, "")))
    undeclared = () if card.features or card.kind != "table" else tuple(read_as)
    assumed += _assumed(card, outlined, undeclared)
    return Understood(card.kind, tuple(columns), undeclared, n_values, tuple(assumed))


def understand(name: str) -> Understood:
    """What was understood of own:NAME. Raises BadInput and DataMissing as a run does."""
    found = understood(outline.outline(catalog.card(name)))
    gigabytes = catalog.needed_bytes(DataSpec(dataset=name)) / 1e9
    said = (f"A run needs about {gigabytes:.2g} GB of memory.",) if gigabytes >= 1 else ()
    return replace(found, assumed=found.assumed + said)


def _read_as(card: DatasetCard, first: Path, outlined: outline.Outline) -> Iterator[str]:
    """What the form of the file makes public, what its first line was taken for, and what is lost on the way in: of public
    rows counted, with the reason; of private ones by rule alone."""
    if first.suffix in sheets.TYPED:
        yield from (f"Public by declaration: {one}." for one in catalog.public_by_form(card))
    if card.coins == 1:
        yield EARLIER
    if first.suffix in sheets.DELIMITED and card.kind != "tagged":
        data = "The first line is a row of data: columns are called column1, column2, and so on."
        named = "The line that names the columns is public. Where the first line is a row of data, say --no-header."
        yield from [named, "A column without a name is left out.", _LINES] if card.has_names else [data, _LINES]
    if outlined.lost:
        lost = "; ".join(f"{n:,} of them: {why}" for why, n in outlined.lost)
        yield f"{sum(n for _, n in outlined.lost):,} public rows are left out. {lost}. So are private rows of the kind."
    if card.kind == "image":
        yield AS_READ
    if card.has_people and not outlined.test.contents.is_private:
        yield "Training rows of people who also stand in the public part are left out."


def described(feature: Feature, width: int) -> str:
    """How a feature becomes numbers, in words."""
    if feature.low is not None and feature.high is not None:
        return f"number from {feature.low:g} to {feature.high:g}"
    if feature.categories:
        return f"one of {len(feature.categories)} categories, or another"
    return f"words, hashed to {width} values" if feature.is_text else _WRITTEN[feature.written]


def _assumed(card: DatasetCard, outlined: outline.Outline, undeclared: tuple[str, ...]) -> Iterator[str]:
    unit = {"text": "text", "tagged": "sentence", "image": "picture"}.get(card.kind, "row")
    if not outlined.test.contents.is_private:
        place, n_public = outlined.test.contents.paths[0], len(np.unique(outlined.test.rows))
        where = f"{place.name}/" if place.is_dir() else place.name
        yield f"{n_public:,} {unit}s in {where} are not protected: they are the public test part."
    else:
        share = card.held_out or HELD_OUT
        part = {HELD_OUT: "A fifth"}.get(share, f"A share of {share:.0%}")
        of_people = " All rows of a person are on one side." if card.has_people else ""
        yield f"{part} is set aside for testing. It is not protected.{of_people}"
    if not card.n_train:
        words = " words" if card.kind == "tagged" else ""
        yield f"About {outlined.n_train:,}{words} to train on."
    if not card.classes:
        more = f" and {len(outlined.classes) - 12:,} more" if len(outlined.classes) > 12 else ""
        labels = ", ".join(outlined.classes[:12]) + more
        rest = "left out" if card.kind == "tagged" else "added if enough people have them"
        yield f"The labels of the test part are public: {labels}. Labels seen only in training are {rest}."
    if undeclared:
        yield (
            "Nothing is declared about the features: every number goes through one fixed public squashing, and words are "
            "hashed. The test part decides which columns hold numbers."
        )
    if card.has_people:
        several = f"Each person is protected as a whole; up to {card.per_person} {unit}s of each are used."
        yield several if card.per_person > 1 else f"Each person counts once; one {unit} of each is used."
    elif card.kind in ("text", "table", "embedding"):
        yield f"Every {unit} counts as another person: where people have several, name the column of the person."


_FIELD = "data check"
_WARNING = "PRIVATE, for you alone. Counted without noise, and covered by no epsilon: do not pass it on."
_NOTHING = intake.Asked()


@dataclass(frozen=True, slots=True, repr=False)
class Public:
    """Public facts. `from_schema`: the fields that a schema declares; all others follow from the test part."""

    name: str
    title: str
    classes: tuple[str, ...]
    sources: tuple[str, ...]
    n_train: int
    n_test: int
    from_schema: tuple[str, ...]
    understood: Understood

    def __repr__(self) -> str:
        """As text for a terminal."""
        has_size = "n_train" in self.from_schema
        size_source = "from the schema" if has_size else "four for each in the test part, as no schema says"
        class_source = "the schema" if "classes" in self.from_schema else "the test part"
        examples = "words" if self.understood.kind == "tagged" else "examples"
        lines = [
            "Public: all that errors, titles, sizes and figures of a run may depend on.",
            f"  title              {self.title}",
            f"  classes            {', '.join(self.classes)} (from {class_source})",
            *([f"  sources            {', '.join(self.sources)}"] if self.sources else []),
            f"  {f'training {examples}':<17}  {self.n_train:,} ({size_source})",
            f"  {f'test {examples}':<17}  {self.n_test:,}",
            f"  kind               {self.understood.kind}",
        ]
        columns, assumed = self.understood.columns, self.understood.assumed
        width = max((len(one.name) for one in columns), default=0)
        lines += ["  columns"] if columns else []
        lines += [f"    {one.name:<{width}}  {', '.join(filter(None, (one.use, one.read_as)))}" for one in columns]
        return "\n".join([*lines, *([""] if assumed else []), *(f"  {sentence}" for sentence in assumed)])


@dataclass(frozen=True, slots=True)
class Private:
    """Private facts: numbers of training rows (of text, lines of a CSV file) and of usable ones, and why others are not.

    `refused`: each reason with its count and first row; `undeclared`: rows by label that is neither in the schema nor in the
    test part, used only under labels = dp-learned; `n_black`: rows whose picture cannot be opened, used as a black one;
    `n_beyond`: rows of people who have more than count.
    """

    n_rows: int
    n_used: int
    refused: tuple[tuple[str, int, str], ...]
    undeclared: Mapping[str, int]
    n_black: int
    n_beyond: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The public and the private part."""

    public: Public
    private: Private

    def document(self) -> dict[str, object]:
        """The report as JSON, with the warning beside the private numbers."""
        return {"public": asdict(self.public), "private": {"warning": _WARNING, **asdict(self.private)}}

    def text(self) -> str:
        """The report as text for a terminal."""
        private = self.private
        rows = "sentences" if self.public.understood.kind == "tagged" else "rows"
        lines = [
            repr(self.public),
            "",
            _WARNING,
            f"  {private.n_rows:,} training {rows}; {private.n_used:,} count.",
            *(f"  {_rows(count)} left out: {why} First: {first}." for why, count, first in private.refused),
            *(
                f'  {_rows(count)} labelled "{label}", which the schema does not declare: used only under dp-learned.'
                for label, count in private.undeclared.items()
            ),
        ]  # fmt: skip
        if private.n_black:
            lines.append(f"  {_rows(private.n_black)} with a picture that cannot be opened: used as a black one.")
        if private.n_beyond:
            lines.append(f"  {_rows(private.n_beyond)} of people who have more than count: left out by public coins.")
        return "\n".join(lines) + "\n"


def report(named: str, asked: intake.Asked = _NOTHING) -> Report:
    """The report on own:NAME, NAME, a folder or a file. Raises BadInput, DataMissing as a run does."""
    with _looked_for(named, asked) as name:
        card = catalog.card(name)
        outlined = outline.outline(card)
        facts, fields, found = catalog.facts(name), schema.read_schema(card), understood(outlined)
        n_rows, refused = outline.refused(card)
        n_black = 0 if card.kind != "image" else _n_black(load.load_dataset(DataSpec(dataset=name), undeclared=True))
        reasons = Counter(one.allowed for one in refused.values())
        first = {one.allowed: one.field for one in reversed(refused.values())}
    declared = tuple(name for name in fields_of(schema.Schema) if fields is not None and getattr(fields, name))
    labels = outlined.open_train.labels[outlined.open_train.labels >= len(outlined.classes)] - len(outlined.classes)
    undeclared = Counter(outlined.undeclared[label] for label in labels.tolist())
    n_beyond = n_rows - len(refused) - len(outlined.open_train.labels) if card.has_people else 0
    why_not = tuple((f"{why}.", count, first[why]) for why, count in reasons.most_common())
    n_used = n_rows - len(refused) - len(labels) - n_beyond
    return Report(
        Public(name, facts.title, outlined.classes, outlined.sources, outlined.n_train, facts.n_test, declared, found),
        Private(n_rows, n_used, why_not, dict(undeclared.most_common()), n_black, n_beyond),
    )


def write_schema(named: str, asked: intake.Asked = _NOTHING) -> Path:
    """Writes the public facts as a `schema.toml` beside the data, to be edited by hand; gives its path.

    Beside a file NAME.csv it is `NAME.schema.toml`. Raises BadInput where one exists already or it cannot be written.
    """
    with _looked_for(named, asked) as name:
        card = catalog.card(name)
        facts, outlined = catalog.facts(name), outline.outline(card)
        found = understood(outlined)
        fields = asked.on(schema.read_schema(card) or schema.Schema())
    fields = replace(fields, title=card.title, classes=facts.classes or (), sources=facts.sources, n_train=facts.n_train)
    if fields.columns != schema.Columns():
        fields = updated(fields, kind=card.kind)
    given = Path(named)
    path = intake.schema_beside(given) if given.is_file() else outlined.train.contents.paths[0].parent / schema.NAME
    if path.exists():
        raise BadInput("--write-schema", str(path), "is there already: edit it, or move it away first")
    with instead_of(OSError, say=BadInput("--write-schema", str(path), "must lie in a folder that you can write to")):
        path.write_text(schema.schema_toml(fields, found.undeclared), encoding="utf-8")
    return path


def _n_black(dataset: Dataset) -> int:
    """The number of training pictures that cannot be opened; each counts as an example, a black one."""
    images, n_black = dataset.train.images, 0
    assert isinstance(images, Images)
    for row in range(len(images)):
        try:
            list(replace(images.take(np.array([row])), is_private=False).batches(8, 3, 1))
        except BadInput:
            n_black += 1
    return n_black


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _as_it_lies(path: Path) -> str | None:
    """own:NAME of a folder in the form of own data; None where it must be taken in first."""
    name = path.resolve().name
    if path.is_dir() and paths.is_safe(name):
        with files.only_in(path.resolve().parent), suppress(DataMissing, OSError):  # OSError: what is gone, as in /proc
            files.find(catalog.card(f"own:{name}"))
            return f"own:{name}"
    return None


@contextmanager
def _looked_for(named: str, asked: intake.Asked) -> Iterator[str]:
    """own:NAME for a name, a file or a folder; within this context that folder is the one searched."""
    if named in catalog.CARDS:
        raise BadInput(_FIELD, named, "must be data of your own: a folder, or its name")
    path = Path(named)
    if named.startswith("own:") or not (os.path.lexists(path) or path.suffix.lower() in copying.SUFFIXES):
        if asked != _NOTHING:
            raise BadInput(_FIELD, named, "has its columns named in its schema: options are for a file or another folder")
        yield f"own:{named.removeprefix('own:')}"
    elif asked == _NOTHING and (name := _as_it_lies(path)) is not None:
        with files.only_in(path.resolve().parent):
            yield name
    else:
        with intake.looked_at(intake.Given(path, asked)) as name:
            yield name
