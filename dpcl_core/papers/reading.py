"""Reads and checks the papers of `assets/papers/NAME.toml`; an error names the file and the key.

Functions (the names of a run's method, the differences of a run) are in the Python `module` that the file names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import import_module
from itertools import product
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, ValidationError

from dpcl_core import paths
from dpcl_core.errors import BadInput, first_of, unknown
from dpcl_core.papers.orderings import Ordering, Side
from dpcl_core.papers.paper import Experiment, Paper
from dpcl_core.papers.remarks import Remark
from dpcl_core.published import Published
from dpcl_core.spec import Spec

_Words = Annotated[str, Field(min_length=1)]
_Names = _Words | tuple[_Words, ...] | None


class _Prints(Spec):
    """The printed numbers of an experiment: those of these tables (none given: all) and datasets with this prefix.

    `notes`: of a table, only the rows with this note.
    """

    tables: tuple[_Words, ...] = ()
    dataset: str = ""
    notes: Mapping[str, str] = {}

    def has(self, row: Published) -> bool:
        is_of = not self.tables or row.table in self.tables
        return is_of and row.dataset.startswith(self.dataset) and self.notes.get(row.table, row.note) == row.note


class _Claimed(Spec):
    """One claimed ordering, at each of several budgets or pairs of budgets (one per side)."""

    says: _Words
    first: _Words
    second: _Words
    at: tuple[PositiveFloat | tuple[PositiveFloat, PositiveFloat], ...] = Field(min_length=1)
    rules: tuple[_Words, _Words] | None = None
    metric: _Words = "AA"
    kind: Literal["higher", "alike"] = "higher"
    test: tuple[_Words, _Words] | None = None
    is_ours: bool = False

    def orderings(self, is_of_ours: bool) -> tuple[Ordering, ...]:
        """`is_of_ours`: of an experiment that the paper does not have, so none of them is the paper's."""
        rules = self.rules or (None, None)
        pairs = (budget if isinstance(budget, tuple) else (budget, budget) for budget in self.at)
        return tuple(
            Ordering(
                self.says,
                Side(self.first, budget, rules[0]),
                Side(self.second, other, rules[1]),
                self.metric,
                self.kind,
                self.test,
                self.is_ours or is_of_ours,
            )
            for budget, other in pairs
        )


class _Experiment(Spec):
    name: _Words
    title: _Words
    question: _Words
    table: _Words | None = None
    prints: _Prints | None = None
    n_classes: int = Field(gt=1)
    metrics: tuple[_Words, ...] | None = None
    orderings: _Words
    departures: tuple[_Words, ...] = ()
    small_departures: tuple[_Words, ...] = ()
    is_ours: bool = False
    has_match_rates: bool = False
    earlier: _Words | None = None


class _Remark(Spec):
    """A remark on every number of these tables, methods, variants, datasets and metrics; None: any."""

    text: _Words
    table: _Words | tuple[_Words, ...]
    method: _Names = None
    variant: str | tuple[str, ...] | None = None
    dataset: _Names = None
    metric: _Names = None
    epsilon: PositiveFloat | None = None
    is_doubtful: bool = False

    def remarks(self) -> tuple[Remark, ...]:
        named = (self.table, self.method, self.variant, self.dataset, self.metric)
        combinations = product(*(one if isinstance(one, tuple) else (one,) for one in named))
        return tuple(
            Remark(self.text, str(table), method, variant, self.epsilon, metric, self.is_doubtful, dataset)
            for table, method, variant, dataset, metric in combinations
        )


class _File(Spec):
    module: _Words
    title: _Words
    source: _Words
    nominal: tuple[_Words, ...] = ()
    metrics: tuple[_Words, ...] = ("AA", "AF")
    is_unpaired: bool = False
    words: Mapping[str, _Words] = {}
    experiments: tuple[_Experiment, ...] = Field(min_length=1)
    orderings: Mapping[str, tuple[_Claimed, ...]]
    remarks: tuple[_Remark, ...] = ()


def load(name: str) -> Paper:
    """A bundled paper by its name. Raises BadInput naming the file and the key that is wrong."""
    file = f"assets/papers/{name}.toml"
    return parsed(name, (paths.assets_dir() / "papers" / f"{name}.toml").read_text(encoding="utf-8"), file)


def parsed(name: str, text: str, file: str) -> Paper:
    """A paper of this TOML text. Raises BadInput naming the file and the key that is wrong."""
    try:
        record = _File.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(file, "", f"must be TOML: {error}") from error
    except ValidationError as error:
        slip = first_of(error)
        raise BadInput(f"{file}: {slip.field}", slip.value, slip.allowed) from error
    if not record.module.startswith(f"{__package__}."):
        raise BadInput(f"{file}: module", record.module, f"must be a module of {__package__}")
    functions = import_module(record.module)
    return Paper(
        name=name,
        title=record.title,
        source=record.source,
        experiments=tuple(_experiment(one, record, file) for one in record.experiments),
        remarks=tuple(remark for one in record.remarks for remark in one.remarks()),
        printed_as=functions.printed_as,
        departs=functions.departs,
        named=functions.named,
        nominal=record.nominal,
        is_unpaired=record.is_unpaired,
    )


def _experiment(one: _Experiment, of: _File, file: str) -> Experiment:
    key = f"{file}: experiments.{one.name}"
    if one.orderings not in of.orderings:
        raise unknown(f"{key}.orderings", one.orderings, of.orderings)
    for field in ("departures", "small_departures"):
        for word in getattr(one, field):
            if word not in of.words:
                raise unknown(f"{key}.{field}", word, of.words)
    return Experiment(
        name=one.name,
        title=one.title,
        question=one.question,
        table=one.table,
        prints=(lambda row: False) if one.prints is None else one.prints.has,
        n_classes=one.n_classes,
        metrics=one.metrics or of.metrics,
        orderings=tuple(found for claimed in of.orderings[one.orderings] for found in claimed.orderings(one.is_ours)),
        departures=tuple(of.words[word] for word in one.departures),
        small_departures=tuple(of.words[word] for word in one.small_departures),
        is_ours=one.is_ours,
        has_match_rates=one.has_match_rates,
        earlier=one.earlier,
    )
