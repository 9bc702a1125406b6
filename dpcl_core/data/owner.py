"""What an owner finds out of data of their own before a run: the command `data check`.

The public part is all that errors, titles, sizes and figures of runs may depend on. The other part is counted in private
rows without noise: for the owner's own terminal alone, stored nowhere.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from dpcl_core.data import catalog, files, load, outline, schema, text_files
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.dataset import Content
from dpcl_core.data.images import Images
from dpcl_core.errors import BadInput
from dpcl_core.spec import DataSpec

_FIELD = "data check"
_WARNING = "PRIVATE, for you alone. Counted without noise, and covered by no epsilon: do not pass it on."


@dataclass(frozen=True, slots=True)
class Public:
    """What anyone may know. `from_schema`: the fields that a schema declares; all others follow from the test part."""

    name: str
    title: str
    classes: tuple[str, ...]
    sources: tuple[str, ...]
    n_train: int
    n_test: int
    from_schema: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Private:
    """What nobody else may: training rows (of text, lines of a CSV file), how many count as examples, and why others do not.

    `refused`: how often each reason holds, and the first row of it; `undeclared`: rows of labels that are neither in the
    schema nor in the test part, used under labels = dp-learned alone; `n_black`: rows with a picture that cannot be opened,
    used as a black one.
    """

    n_rows: int
    n_used: int
    refused: tuple[tuple[str, int, str], ...]
    undeclared: Mapping[str, int]
    n_black: int


@dataclass(frozen=True, slots=True)
class Report:
    """Both parts."""

    public: Public
    private: Private

    def document(self) -> dict[str, object]:
        """As JSON, the warning beside the private numbers."""
        return {"public": asdict(self.public), "private": {"warning": _WARNING, **asdict(self.private)}}

    def text(self) -> str:
        """As a person reads it."""
        public, private = self.public, self.private
        told = "the schema" if "n_train" in public.from_schema else "four for each test example, as no schema says"
        known = "the schema" if "classes" in public.from_schema else "the test part"
        lines = [
            "Public: all that errors, titles, sizes and figures of a run may depend on.",
            f"  title              {public.title}",
            f"  classes            {', '.join(public.classes)} (from {known})",
            *([f"  sources            {', '.join(public.sources)}"] if public.sources else []),
            f"  training examples  {public.n_train:,} (from {told})" if "n_train" in public.from_schema else
            f"  training examples  {public.n_train:,} ({told})",
            f"  test examples      {public.n_test:,}",
            "",
            _WARNING,
            f"  {private.n_rows:,} training rows; {private.n_used:,} count as examples.",
            *(f"  {_rows(count)} left out: {why} First: {first}." for why, count, first in private.refused),
            *(
                f'  {_rows(count)} labelled "{label}", which nobody declared: used under labels = dp-learned alone.'
                for label, count in private.undeclared.items()
            ),
        ]  # fmt: skip
        if private.n_black:
            lines.append(f"  {_rows(private.n_black)} with a picture that cannot be opened: used as a black one.")
        return "\n".join(lines) + "\n"


def report(named: str) -> Report:
    """What is known of own:NAME, NAME, or a folder. Raises BadInput, DataMissing as a run does."""
    with _looked_for(named) as name:
        card = catalog.card(name)
        found = files.find(card)
        whole = outline.outline(card, found)
        facts, declared = catalog.facts(name), _declared(card)
        n_rows, refused = outline.refused(card, found)
        black = list(_black(load.load(DataSpec(dataset=name), undeclared=True).train.images) if card.kind == "image" else ())
    reasons = Counter(one.allowed for one in refused)
    first = {one.allowed: one.field for one in reversed(refused)}
    passed = sum(text_files.n_passed_over(path) for path in found.train if path.suffix == ".csv")
    if passed:
        reasons["must have as many values as the first line has names"] = passed
        first["must have as many values as the first line has names"] = "a line that is no row of the table"
    labels = whole.open_train.labels[whole.open_train.labels >= len(whole.classes)] - len(whole.classes)
    undeclared = Counter(whole.undeclared[label] for label in labels.tolist())
    n_used = n_rows - len(refused) - len(labels)
    return Report(
        Public(name, facts.title, whole.classes, whole.sources, whole.n_train, facts.n_test, declared),
        Private(
            n_rows + passed,
            n_used,
            tuple((f"{why}.", count, first[why]) for why, count in reasons.most_common()),
            dict(undeclared.most_common()),
            len(black),
        ),
    )


def write_schema(named: str) -> Path:
    """Writes what is public as a `schema.toml` beside the data, to be edited by hand.

    Raises BadInput where there is one already, or it cannot be written.
    """
    with _looked_for(named) as name:
        card = catalog.card(name)
        found = files.find(card)
        facts = catalog.facts(name)
    path = found.train[0].parent / schema.NAME
    if path.exists():
        raise BadInput("--write-schema", str(path), "is there already: edit it, or move it away first")
    try:
        path.write_text(schema.written(card.title, facts.classes or (), facts.sources, facts.n_train), encoding="utf-8")
    except OSError as error:
        raise BadInput("--write-schema", str(path), "must lie in a folder that you can write to") from error
    return path


def printed(named: str, *, with_schema: bool, as_json: bool) -> str:
    """What the command prints; with `with_schema` it writes the schema first."""
    path = write_schema(named) if with_schema else None
    found = report(named)
    if as_json:
        document = {**found.document(), **({} if path is None else {"schema": str(path)})}
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    return found.text() + ("" if path is None else f"\nWrote {path}: edit it by hand; it holds public facts alone.\n")


def _black(images: Content) -> Iterator[BadInput]:
    """What is wrong with pictures that cannot be opened: each counts as an example, a black one."""
    assert isinstance(images, Images)
    for row in range(len(images)):
        try:
            list(replace(images.take(np.array([row])), is_private=False).batches(8, 3, 1))
        except BadInput as error:
            yield error


def _declared(card: DatasetCard) -> tuple[str, ...]:
    """The fields that the schema fills."""
    found = schema.read(card)
    return tuple(name for name in schema.Schema.model_fields if found is not None and getattr(found, name))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


@contextmanager
def _looked_for(named: str) -> Iterator[str]:
    """own:NAME for a name or a folder; while this lasts, that folder is where it is looked for."""
    if named in catalog.CARDS:
        raise BadInput(_FIELD, named, "must be data of your own: a folder, or its name")
    folder = Path(named)
    if named.startswith("own:") or not folder.is_dir():
        yield f"own:{named.removeprefix('own:')}"
        return
    before = os.environ.get("DPCL_DATA")
    os.environ["DPCL_DATA"] = str(folder.resolve().parent)
    try:
        yield f"own:{folder.resolve().name}"
    finally:
        if before is None:
            del os.environ["DPCL_DATA"]
        else:
            os.environ["DPCL_DATA"] = before
