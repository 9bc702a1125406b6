"""The papers by name."""

from __future__ import annotations

from collections.abc import Mapping

from dpcl_core.errors import unknown
from dpcl_core.papers import reading
from dpcl_core.papers.paper import Experiment, Paper

PAPERS: Mapping[str, Paper] = {name: reading.load(name) for name in ("tobaben", "lifelong", "pecl", "cslr")}


def paper(name: str) -> Paper:
    """A paper. Raises BadInput naming the known ones."""
    if name not in PAPERS:
        raise unknown("paper", name, PAPERS)
    return PAPERS[name]


def experiment(of: Paper, name: str) -> Experiment:
    """An experiment of a paper. Raises BadInput naming the known ones."""
    for found in of.experiments:
        if found.name == name:
            return found
    raise unknown("--experiment", name, (known.name for known in of.experiments))
