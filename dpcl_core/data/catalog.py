"""The datasets by name: their cards, whether they can be used here, and their public numbers. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcl_core import paths
from dpcl_core.data import copying, files, schema
from dpcl_core.data.card import CARDS, HELD_OUT, LIMITS, UNCAPPED, Caps, DatasetCard
from dpcl_core.data.title import Sizes, title
from dpcl_core.errors import BadInput, DataMissing, unknown

if TYPE_CHECKING:
    from dpcl_core.data.outline import Outline
    from dpcl_core.spec import DataSpec

__all__ = [
    "BUNDLED", "CARDS", "Caps", "DatasetCard", "DatasetFacts", "available", "card", "facts", "facts_of", "members",
    "outlines", "score",
]  # fmt: skip

BUNDLED = "digits"
_PUBLIC_PARTS = "the test part and the schema: classes, sources and sizes are read from them, as they are public"
_OF_PERSON = ("a person whom the rows of others describe, too: each is protected for the rows under their own name",)
_OWN = {
    "image": "images", "sensor": "sensor windows", "text": "texts", "tagged": "sentences with tagged names",
    "table": "rows of a table", "embedding": "embeddings",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Public sizes and names of a dataset, without reading an image: sizes after the subset, and the truthful title.

    `classes` is None where the names are only in files not yet downloaded; `sources` are names. `is_here`: counted in the
    files on this computer, not taken from the card.
    """

    name: str
    title: str
    n_train: int
    n_test: int
    n_classes: int
    classes: tuple[str, ...] | None
    sources: tuple[str, ...]
    is_here: bool


def score(name: str) -> str:
    """Name of the score on the dataset: "entity F1" where words are tagged, else "accuracy"."""
    try:
        is_tagged = card(name).kind == "tagged"
    except (BadInput, DataMissing):  # a run on data that have been removed
        is_tagged = False
    return "entity F1" if is_tagged else "accuracy"


def card(name: str) -> DatasetCard:
    """The card of a dataset, or of the user's own folder as own:NAME, whose kind is read from its file headers.

    Raises BadInput naming the known ones.
    """
    if name in CARDS:
        return CARDS[name]
    if not name.startswith("own:"):
        raise unknown(files.FIELD, name, CARDS, ", or own:NAME for a folder of yours")
    return schema.declared(_folder_card(name))


def called(name: str) -> str:
    """What pages and captions call a dataset: its title, of own data as in "people (own data)"; else the name itself."""
    try:
        one = card(name)
    except BadInput:  # of another version of the app, or removed
        return name
    return f"{one.title} (own data)" if one.is_own else one.title


def _folder_card(name: str) -> DatasetCard:
    """The card of the user's own folder, from the headers of its files."""
    folder_name = name.removeprefix("own:")
    paths.inside(paths.home() / "data", folder_name, files.FIELD)
    from dpcl_core.data import header

    own = DatasetCard(name, folder_name, "", source="your own", licence="your own", n_classes=0, n_train=0, n_test=0)
    fields = schema.read(own)
    if fields is not None:
        own = schema.with_columns(own, fields)
    own = header.with_columns(own, (fields.held_out if fields else None) or HELD_OUT)
    kind = (fields.kind if fields else None) or header.kind(own) or header.of_damaged(own)
    limits = _OF_PERSON if own.has_people else LIMITS[kind]
    own = replace(
        own,
        kind=kind,
        summary=f"Your own {_OWN[kind]}, read from a folder on this computer.",
        limits=(*limits, _PUBLIC_PARTS, *header.declared(own)),
        may_show=False,
    )
    divided = replace(own, held_out=HELD_OUT)
    if kind in header.DIVISIBLE:
        may_show = kind == "text" and files.is_marked(divided)
        return replace(own, held_out=None if files.find(divided).test else HELD_OUT, may_show=may_show)
    try:
        is_divided = kind == "image" and (found := files.find(divided)).is_folder and not found.test
    except BadInput:  # reported where the files are needed
        is_divided = False
    return divided if is_divided else own


def members(dataset: DatasetCard) -> tuple[DatasetCard, ...]:
    """The cards of the sets that a dataset joins: its own card if it is a single set."""
    return tuple(CARDS[name] for name in dataset.members) or (dataset,)


def available(dataset: DatasetCard) -> str | None:
    """None if the dataset can be used; else one sentence with the file to add and its folder. Opens no file.

    A dataset that is not on this computer counts as usable while the hub answers.
    """
    for member in members(dataset):
        try:
            if member.name != BUNDLED and not member.made_per_source:
                files.find(member)
        except DataMissing as missing:
            if member.hub is None or not copying.is_reachable():
                which = "" if member is dataset else f"for {member.title}, "
                why = "" if member.hub is None else ", and the Hugging Face hub cannot be reached"
                return f"{which}{missing.allowed}{why}"
        except BadInput as refused:
            return refused.allowed
    return None


def facts_of(data: DataSpec) -> DatasetFacts:
    """The public facts of the part of a dataset that these settings keep; raises as `facts` does."""
    return facts(data.dataset, Caps.of(data))


def facts(name: str, caps: Caps = UNCAPPED) -> DatasetFacts:
    """The public facts of a dataset, or of its subset with these caps.

    Reads the label columns of files on this computer, cached until they change. Raises BadInput for an unknown name or files
    that cannot be used, DataMissing for own data that do not exist.
    """
    dataset = card(name)
    parts = outlines(dataset)
    full, subset = (
        [
            Sizes.published(member, kept) if part is None else Sizes.of(part, kept)
            for member, part in zip(members(dataset), parts, strict=True)
        ]
        for kept in (UNCAPPED, caps)
    )
    only = parts[0] if not dataset.members else None
    return DatasetFacts(
        name=name,
        title=title(dataset, members(dataset), subset, full),
        n_train=sum(sizes.totals[0] for sizes in subset),
        n_test=sum(sizes.totals[1] for sizes in subset),
        n_classes=sum(len(sizes.train) for sizes in subset),
        classes=only.classes if only else (dataset.classes or None),
        sources=only.sources if only else dataset.members,
        is_here=None not in parts,
    )


def source_sizes(data: DataSpec) -> dict[str, int]:
    """Nominal numbers of training examples of a dataset's sources under the settings' caps, from its card alone.

    The sources of a combined dataset are its members; those of a generated one are equally large. Empty where the card has
    no sizes.
    """
    dataset = card(data.dataset)
    caps = Caps.of(data)
    if dataset.members:
        return {one.name: Sizes.published(one, caps).totals[0] for one in members(dataset)}
    if not dataset.made_per_source:
        return {}
    n_each = dataset.n_train // len(dataset.sources)
    parts = [replace(dataset, n_train=n_each, n_classes=len(classes), sources=()) for _, classes in dataset.sources]
    totals = [Sizes.published(part, caps).totals[0] for part in parts]
    return dict(zip((source for source, _ in dataset.sources), totals, strict=True))


def outlines(dataset: DatasetCard) -> list[Outline | None]:
    """The outline of each member's files; None where they would have to be downloaded. Raises as `facts` does."""
    return [_outline(member) for member in members(dataset)]


def _outline(member: DatasetCard) -> Outline | None:
    try:
        files_found = None if member.name == BUNDLED else files.find(member)
    except DataMissing:
        if member.hub is None:
            raise
        return None
    from dpcl_core.data.outline import outline  # loads pyarrow, which listing the cards does not need

    return outline(member, files_found)
