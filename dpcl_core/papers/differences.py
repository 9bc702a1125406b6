"""Sentences on differences between a run and a paper that all papers share."""

from __future__ import annotations

from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.errors import BadInput
from dpcl_core.papers.measured import Measured


def of_data(run: Measured) -> list[str]:
    """The data used, where they were not the full set; else empty."""
    name = run.spec.data.dataset
    full = datasets.CARDS[name].title if name in datasets.CARDS else name
    return [] if run.dataset_title == full else [f"Data: {run.dataset_title}, not the full set."]


def backbone_title(name: str) -> str:
    """A network's title, or its name where it has no card."""
    try:
        return backbones.card(name).title
    except BadInput:
        return name
