"""The datasets by name: their cards, whether they can be used here, and their public numbers. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpcl_core import paths
from dpcl_core.data import files, hub, schema
from dpcl_core.data.card import DatasetCard
from dpcl_core.data.cards import CARDS, LIMITS
from dpcl_core.data.title import UNCAPPED, Caps, Sizes, title
from dpcl_core.errors import BadInput, DataMissing, unknown

if TYPE_CHECKING:
    from dpcl_core.data.outline import Outline
    from dpcl_core.spec import DataSpec

__all__ = [
    "BUNDLED", "CARDS", "DatasetCard", "DatasetFacts", "available", "card", "facts", "facts_of", "members", "outlines",
    "score",
]  # fmt: skip

BUNDLED = "digits"
_PUBLIC_PARTS = "the test part and the schema: classes, sources and sizes are read from them, as they are public"
_HELD_OUT = 0.2  # of a person's own texts without a test part


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


def _folder_card(name: str) -> DatasetCard:
    """The card of the user's own folder, from the headers of its files."""
    folder_name = name.removeprefix("own:")
    paths.inside(paths.home() / "data", folder_name, files.FIELD)
    images = DatasetCard(
        name=name,
        title=folder_name,
        summary="Your own images, read from a folder on this computer.",
        source="your own",
        licence="your own",
        n_classes=0,
        n_train=0,
        n_test=0,
        may_show=False,
        limits=(_PUBLIC_PARTS,),
    )
    from dpcl_core.data import header, showing

    kind = header.kind(images)
    if kind == "sensor":
        summary = "Your own sensor windows, read from a folder on this computer."
        return replace(images, summary=summary, kind="sensor", limits=(*LIMITS["sensor"], _PUBLIC_PARTS))
    if kind == "tagged":
        tagged = replace(images, kind="tagged", limits=(*LIMITS[kind], _PUBLIC_PARTS), held_out=_HELD_OUT)
        summary = "Your own sentences with tagged names, read from a folder on this computer."
        return replace(tagged, summary=summary, held_out=None if files.find(tagged).test else _HELD_OUT)
    if kind == "text":
        texts = replace(images, kind="text", held_out=_HELD_OUT)
        return replace(
            texts,
            summary="Your own texts, read from a folder on this computer.",
            limits=(*LIMITS[kind], _PUBLIC_PARTS),
            held_out=None if files.find(texts).test else _HELD_OUT,
            may_show=showing.is_marked(texts),
        )
    return images


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
            if member.hub is None or not hub.is_reachable():
                which = "" if member is dataset else f"for {member.title}, "
                why = "" if member.hub is None else ", and the Hugging Face hub cannot be reached"
                return f"{which}{missing.allowed}{why}"
        except BadInput as refused:
            return refused.allowed
    return None


def facts_of(data: DataSpec) -> DatasetFacts:
    """The public facts of the part of a dataset that these settings keep; raises as `facts` does."""
    return facts(data.dataset, data.train_per_class, data.test_per_class, data.train_per_source)


def facts(
    name: str, train_per_class: int | None = None, test_per_class: int | None = None, train_per_source: int | None = None
) -> DatasetFacts:
    """The public facts of a dataset, or of its subset with these caps per class or source.

    Reads the label columns of files on this computer, cached until they change. Raises BadInput for an unknown name or files
    that cannot be used, DataMissing for own data that do not exist.
    """
    dataset = card(name)
    parts = outlines(dataset)
    full, subset = (
        [
            Sizes.published(member, caps) if part is None else Sizes.of(part, caps)
            for member, part in zip(members(dataset), parts, strict=True)
        ]
        for caps in (UNCAPPED, Caps(train_per_class, test_per_class, train_per_source))
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
    caps = Caps(train_per_class=data.train_per_class, train_per_source=data.train_per_source)
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
