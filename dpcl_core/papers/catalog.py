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
    by_name = {experiment.name: experiment for experiment in of.experiments}
    if name not in by_name:
        raise unknown("--experiment", name, by_name)
    return by_name[name]
