"""Report on the user's own data before a run: the command `data check`.

The public part is all that errors, titles, sizes and figures of runs may depend on. The private part is counted in private
rows without noise: for the owner's terminal only, never stored.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dpcl_core import paths
from dpcl_core.data import catalog, copying, files, intake, load, outline, schema
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.dataset import Content
from dpcl_core.data.images import Images
from dpcl_core.data.intake import Asked
from dpcl_core.data.understood import Understood, understood
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.spec import DataSpec

_FIELD = "data check"
_WARNING = "PRIVATE, for you alone. Counted without noise, and covered by no epsilon: do not pass it on."
_NOTHING = Asked()


@dataclass(frozen=True, slots=True)
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
        public, private = self.public, self.private
        has_size = "n_train" in public.from_schema
        size_source = "from the schema" if has_size else "four for each in the test part, as no schema says"
        class_source = "the schema" if "classes" in public.from_schema else "the test part"
        examples, rows = ("words", "sentences") if public.understood.kind == "tagged" else ("examples", "rows")
        lines = [
            "Public: all that errors, titles, sizes and figures of a run may depend on.",
            f"  title              {public.title}",
            f"  classes            {', '.join(public.classes)} (from {class_source})",
            *([f"  sources            {', '.join(public.sources)}"] if public.sources else []),
            f"  {f'training {examples}':<17}  {public.n_train:,} ({size_source})",
            f"  {f'test {examples}':<17}  {public.n_test:,}",
            *_lines(public.understood),
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


def report(named: str, asked: Asked = _NOTHING) -> Report:
    """The report on own:NAME, NAME, a folder or a file. Raises BadInput, DataMissing as a run does."""
    with _looked_for(named, asked) as name:
        card = catalog.card(name)
        data_files = files.find(card)
        outlined = outline.outline(card, data_files)
        facts, declared, found = catalog.facts(name), _declared(card), understood(card, data_files, outlined)
        n_rows, refused = outline.refused(card, data_files)
        n_black = _n_black(load.load(DataSpec(dataset=name), undeclared=True).train.images) if card.kind == "image" else 0
        reasons = Counter(one.allowed for one in refused.values())
        first = {one.allowed: one.field for one in reversed(refused.values())}
    labels = outlined.open_train.labels[outlined.open_train.labels >= len(outlined.classes)] - len(outlined.classes)
    undeclared = Counter(outlined.undeclared[label] for label in labels.tolist())
    n_beyond = n_rows - len(refused) - len(outlined.open_train.labels) if card.has_people else 0
    why_not = tuple((f"{why}.", count, first[why]) for why, count in reasons.most_common())
    n_used = n_rows - len(refused) - len(labels) - n_beyond
    return Report(
        Public(name, facts.title, outlined.classes, outlined.sources, outlined.n_train, facts.n_test, declared, found),
        Private(n_rows, n_used, why_not, dict(undeclared.most_common()), n_black, n_beyond),
    )


def write_schema(named: str, asked: Asked = _NOTHING) -> Path:
    """Writes the public facts as a `schema.toml` beside the data, to be edited by hand; gives its path.

    Beside a file NAME.csv it is `NAME.schema.toml`. Raises BadInput where one exists already or it cannot be written.
    """
    with _looked_for(named, asked) as name:
        card = catalog.card(name)
        data_files = files.find(card)
        facts = catalog.facts(name)
        outlined = outline.outline(card, data_files)
        found = understood(card, data_files, outlined)
        fields = asked.on(schema.read(card) or schema.Schema())
    fields = fields.model_copy(
        update={"title": card.title, "classes": facts.classes or (), "sources": facts.sources, "n_train": facts.n_train}
    )
    if fields.columns != schema.Columns():
        fields = fields.model_copy(update={"kind": card.kind})
    given = Path(named)
    path = intake.schema_beside(given) if given.is_file() else data_files.train[0].parent / schema.NAME
    if path.exists():
        raise BadInput("--write-schema", str(path), "is there already: edit it, or move it away first")
    try:
        path.write_text(schema.written(fields, found.undeclared), encoding="utf-8")
    except OSError as error:
        raise BadInput("--write-schema", str(path), "must lie in a folder that you can write to") from error
    return path


def printed(named: str, asked: Asked = _NOTHING, *, with_schema: bool, as_json: bool) -> str:
    """The output of the command; with `with_schema` it writes the schema first."""
    path = write_schema(named, asked) if with_schema else None
    result = report(named, asked)
    if as_json:
        document = {**result.document(), **({} if path is None else {"schema": str(path)})}
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    return result.text() + ("" if path is None else f"\nWrote {path}: edit it by hand; it holds public facts alone.\n")


def _n_black(images: Content) -> int:
    """The number of pictures that cannot be opened; each counts as an example, a black one."""
    assert isinstance(images, Images)
    n_black = 0
    for row in range(len(images)):
        try:
            list(replace(images.take(np.array([row])), is_private=False).batches(8, 3, 1))
        except BadInput:
            n_black += 1
    return n_black


def _declared(card: DatasetCard) -> tuple[str, ...]:
    """The names of the fields that the schema declares."""
    fields = schema.read(card)
    return tuple(name for name in schema.Schema.model_fields if fields is not None and getattr(fields, name))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _lines(found: Understood) -> list[str]:
    """What was understood, in lines for a terminal."""
    width = max((len(column.name) for column in found.columns), default=0)
    columns = [
        f"    {column.name:<{width}}  {', '.join(filter(None, (column.use, column.read_as)))}" for column in found.columns
    ]
    return [
        f"  kind               {found.kind}",
        *(["  columns", *columns] if columns else []),
        *([""] if found.assumed else []),
        *(f"  {sentence}" for sentence in found.assumed),
    ]


def _as_it_lies(path: Path) -> str | None:
    """own:NAME of a folder in the form of own data; None where it must be taken in first."""
    name = path.resolve().name
    if path.is_dir() and paths.is_safe(name):
        with files.only_in(path.resolve().parent), suppress(DataMissing, OSError):  # OSError: what is gone, as in /proc
            files.find(catalog.card(f"own:{name}"))
            return f"own:{name}"
    return None


@contextmanager
def _looked_for(named: str, asked: Asked) -> Iterator[str]:
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
        with intake.looked_at(path, asked) as name:
            yield name
