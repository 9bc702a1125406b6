"""What a ledger guarantees: unit, numbers, and every line on what is and is not protected; `statement` sums them up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcl_core.events import AuditNote, Guarantee, Planned
from dpcl_core.privacy.statement import (
    CHANNELS,
    LIST_FROM_DATA,
    LISTS,
    TOTAL,
    WEAK_EPSILON,
    all_models,
    all_planned,
    shown_number,
)
from dpcl_core.published import Layer
from dpcl_core.spec import Adjacency, Cell, Inputs, RunSpec

if TYPE_CHECKING:
    from dpcl_core.privacy.ledger import Ledger  # loads the accountants, which take seconds


@dataclass(frozen=True, slots=True)
class Protected:
    """One unit of privacy. `noun` with its `article`; `one`: whom it represents; `several`: what is counted in public.

    `unit`: what taking part means, as in `Guarantee.unit`; `in_several`: who is protected less than it seems ("": nobody);
    `neighbours`: by adjacency; `beyond`: what is never protected, None where it depends on the dataset.
    """

    noun: str
    article: str
    one: str
    several: str
    unit: str
    in_several: str
    neighbours: Mapping[Adjacency, str]
    beyond: str | None = None


def _single(noun: str, article: str) -> Protected:
    changed: dict[Adjacency, str] = {
        "add-remove": f"one {noun} is present or left out, and the announced number of {noun}s stays the same (zero-out)",
        "replace": f"one {noun} is exchanged for another",
    }
    in_several = f"a person with {noun}s in several tasks"
    return Protected(noun, article, "person", f"training {noun}s", f"one training {noun}", in_several, changed)


PROTECTED: Mapping[str, Protected] = {
    "example": _single("example", "an"),
    "text": _single("text", "a"),
    "person": Protected(
        "person", "a", "person", "people", "one person, with all rows under their name that count", "",
        {
            "add-remove": "one person's rows are present or left out, and the announced number of rows stays (zero-out)",
            "replace": "one person's rows are exchanged for another's",
        },
    ),
    "sentence": Protected(
        "sentence", "a", "person", "training sentences", "one training sentence, with all of its words that count",
        "a person with sentences in several tasks",
        {
            "add-remove": "one sentence's words are present or left out, and the announced number of words stays (zero-out)",
            "replace": "one sentence's words are exchanged for another's",
        },
    ),
    "user": Protected(
        "client", "a", "client", "clients", "one client, with everything that it holds",
        "a client that holds examples of several tasks",
        {
            "add-remove": "one client's contribution counts or is left out, and the announced number stays (zero-out)",
            "replace": "one client's contribution is exchanged for another's",
        },
        "a person about whom several clients hold something: each client is protected, not what they share",
    ),
}  # fmt: skip


def who(unit: str) -> str:
    """Whom a statement with this `Guarantee.unit` protects: "person" or "client"."""
    return next((one.one for one in PROTECTED.values() if one.unit == unit), "person")


_COMPOSITION = {
    "once": "parallel: every {noun} is in one task only, so the task that spends most counts",
    "every": "sequential: {article} {noun} may be in every task, so the tasks add up",
}
_REUSED = (
    "every {noun} is in one task, but releases after later tasks read it again: its uses add up, and the {noun}s "
    "used most count"
)
_STREAM = (
    "the sums of all tasks are one release whose noise is remembered: every {noun} is in one task only, and is charged once "
    "for the whole stream, even if it ends early"
)
_JOINT = {
    "once": "one training reads the {noun}s of all tasks together: each is used in it alone, and the largest cost counts",
    "every": "one training reads all tasks together: {article} {noun} may be in every task, and counts once for each",
}
_NETWORK: Mapping[Inputs, str] = {
    "features": "the network that computes the features",
    "images": "the network that computes the features",
    "text": "the language model before it is adapted, with its list of tokens",
}
_LABELS = {
    "prior": "the list of labels of each task, and which task a label belongs to, were public beforehand (oracle prior)",
    "prior-const": "one list of all labels was public beforehand",
    "dp-learned": "every {noun} has one label; which labels there are need not be public",
}
_NAMES_ONE = "every client names one of its labels, which a public coin picks; which labels there are need not be public"
_RULE = "which task {article} {noun} belongs to depends on that {noun} alone, through a public rule"
_ROWS = (
    "group bound: noise is for one row, and {several} have at most {rows} that count, whatever tasks they are in: "
    "{rows} times a row's epsilon, at a delta that grows with it"
)
_KEPT_ROWS = (
    "of each {noun} at most {rows} {row_word} {count}, chosen by public coins of their own bytes: no other {noun}'s matter"
)
_SCOPE = "every classifier released along the stream, one after each task"
_SCOPE_OF_ONE = "the only classifier that is released, after the last task"
_NOT_COVERED = {
    "no": "settings chosen by looking at results on the same data (tuning)",
    "public": "settings changed since by looking at results on the same data (tuning)",
    "private": "settings were tuned on the private data; that is not accounted",
}
_COUNTED = (
    "how many training examples there are in all, of each class and in each task is counted in the benchmark's files, and "
    "taken as public"
)
_TIMES = "how long the work took: times depend on the data, and are stored coarsely only"
_TUNED_ON_PUBLIC = (
    "settings were tuned on public data, in which none of the protected people is: so whoever set up the run declares, and "
    "nothing checks it"
)
FEW_PEOPLE = 500


def guarantee(
    ledger: Ledger, spec: RunSpec, cell: Cell, *, unit: str, n_people: int, n_tasks: int, assumed: Sequence[str] = (),
    limits: Sequence[str] = (), planned: Planned | None = None, audit: AuditNote | None = None,
    notes: Sequence[str] = (), layer: Layer | None = None,
) -> Guarantee:  # fmt: skip
    """The guarantee of one cell, computed from its ledger.

    Args: unit: the privacy unit, one of `PROTECTED`; n_people: public nominal number of them in the training data; assumed:
    the stream's assumptions where no public rule says which task a record belongs to; limits: what these data leave
    unprotected, for this unit; planned: what all models of the run were planned to do;
    audit: the lower bound by an attack on the method's mechanism; notes: caveats of the method with these settings; layer:
    how these settings relate to the method's publication.
    """
    from dpcl_core.privacy.ledger import best_attack  # loads the accountants, as the ledger has

    protected, epsilon, best = PROTECTED[unit], ledger.epsilon(), best_attack(ledger)
    scope = _SCOPE_OF_ONE if _is_joint(ledger) else _SCOPE
    parts = parts_of(
        ledger, one=protected.one, has_list=spec.labels == "dp-learned", n_tasks=n_tasks if protected.in_several else 1
    )
    if spec.n_cells > 1 and planned is not None:
        parts[all_models(spec.n_cells, planned.delta, spec.privacy.delta)] = planned.epsilon
    return Guarantee(
        epsilon=epsilon,
        delta=spec.privacy.delta,
        unit=protected.unit,
        adjacency=f"{spec.privacy.adjacency}: {protected.neighbours[spec.privacy.adjacency]}",
        composition=_composition(ledger, protected),
        scope=f"{scope}, with its list of labels" if spec.labels == "dp-learned" else scope,
        claimed_epsilon=cell.epsilon,
        noise=spec.privacy.noise,
        assumptions=_assumptions(spec, unit, ledger.rows_per_unit, assumed),
        not_covered=_not_covered(spec, protected, limits, planned, has_sum=ledger.recurrence == "once" and n_tasks > 1),
        caveats=_caveats(spec, cell, epsilon, n_people, protected, notes),
        parts=parts,
        claim=ledger.claimed,
        audit=audit,
        layer=layer,
        advantage=None if best is None else best.advantage,
        hits=None if best is None else best.hits,
    )


def _assumptions(spec: RunSpec, unit: str, rows: int, assumed: Sequence[str]) -> tuple[str, ...]:
    protected = PROTECTED[unit]
    noun, article = _of_one(protected, rows)
    kept, count = ("row", "counts") if rows == 1 else ("rows", "count")
    of_labels = _NAMES_ONE if unit == "user" and spec.labels == "dp-learned" else _LABELS.get(spec.labels, "")
    lines = {
        of_labels.format(noun=noun): not spec.reads_labels,
        **dict.fromkeys(assumed, True),
        _RULE.format(noun=noun, article=article): not assumed,
        f"the number of {protected.several} is public, and so is {_NETWORK[spec.params.inputs]}": True,
        _COUNTED: not spec.data.dataset.startswith("own:"),
        _KEPT_ROWS.format(noun=protected.noun, rows=rows, row_word=kept, count=count): unit in ("person", "sentence"),
        "which examples are in the subset is a public coin of each one's own bytes": spec.data.is_subset,
        _TUNED_ON_PUBLIC: spec.tuned == "public",
    }
    return tuple(line for line, holds in lines.items() if holds)


def _not_covered(
    spec: RunSpec, protected: Protected, limits: Sequence[str], planned: Planned | None, *, has_sum: bool
) -> tuple[str, ...]:
    lines = [_NOT_COVERED[spec.tuned], "the test examples, taken as public", _TIMES]
    lines += [*([protected.beyond] if protected.beyond else []), *limits]
    if has_sum and protected.in_several:
        lines.append(f"{protected.in_several}: see the sum for one in every task")
    if spec.n_cells > 1:
        plan = "" if planned is None else f"; {all_planned(planned)}"
        lines.append(f"the {spec.n_cells} models of this run taken together: each bound holds for one model alone{plan}")
    return tuple(lines)


def parts_of(ledger: Ledger, *, one: str, has_list: bool, n_tasks: int) -> dict[str, float]:
    """The parts of a ledger's total by name: tasks, groups of people, channels, learned lists, a person in every task.

    `one`: whom the unit represents (`Protected`); `has_list`: whether lists of labels were learned.
    """
    parts = {f"task {task + 1}": value for task, value in ledger.by_task().items()}
    if ledger.recurrence == "once" and _reads_other_tasks(ledger):
        parts |= ledger.by_people()
    if channels := ledger.by_channel():
        parts |= {shown_as: channels.get(name, 0.0) for name, shown_as in CHANNELS.items()} | {TOTAL: ledger.epsilon()}
    if has_list:
        parts[LISTS] = ledger.lists_alone()
    if n_tasks > 1:
        parts[f"the same {one} in every task"] = ledger.if_in_every_task()
    return parts


def _of_one(protected: Protected, rows: int) -> tuple[str, str]:
    """What one entry of the ledger protects, and its article: the unit, or one of the unit's several rows."""
    return (protected.noun, protected.article) if rows == 1 else ("row", "a")


def _composition(ledger: Ledger, protected: Protected) -> str:
    """How a ledger's entries compose for one unit."""
    text, rows = _COMPOSITION[ledger.recurrence], ledger.rows_per_unit
    if _is_joint(ledger):
        text = _JOINT[ledger.recurrence]
    elif _is_stream(ledger):
        text = _STREAM
    elif ledger.recurrence == "once" and _reads_other_tasks(ledger):
        text = _REUSED
    noun, article = _of_one(protected, rows)
    of_rows = "" if rows == 1 else f"{_ROWS.format(several=protected.several, rows=rows)}; of rows: "
    return of_rows + text.format(noun=noun, article=article)


def _reads_other_tasks(ledger: Ledger) -> bool:
    """Whether data of one task are read when another is learned."""
    return any(entry.people_of != (entry.task,) for entry in ledger.entries)


def _is_stream(ledger: Ledger) -> bool:
    """Whether a release is charged to people of tasks that come after it: one mechanism for a whole stream."""
    return any(entry.task < max(entry.people_of, default=0) for entry in ledger.entries)


def _is_joint(ledger: Ledger) -> bool:
    """Whether all tasks are learned together after the last one, and nothing but lists of labels is released before."""
    from dpcl_core.privacy.accounting import LabelListDpEvent  # loads the accountants, as the next line does
    from dpcl_core.privacy.labels import LIST_READ

    trained = [e for e in ledger.entries if not isinstance(e.event, LabelListDpEvent) and e.what != LIST_READ]
    return _reads_other_tasks(ledger) and not _is_stream(ledger) and len({entry.task for entry in trained}) == 1


def _caveats(
    spec: RunSpec, cell: Cell, epsilon: float, n_people: int, protected: Protected, notes: Sequence[str]
) -> tuple[str, ...]:
    is_noisy, is_own = math.isfinite(cell.epsilon), spec.data.dataset.startswith("own:")
    lines = {
        LIST_FROM_DATA: spec.reads_labels,
        "No noise was added: this is the result without differential privacy.": not is_noisy,
        **dict.fromkeys(notes, is_noisy),
        "The noise is seeded so that the run can be repeated: anyone who knows the seed can subtract it.": (
            is_noisy and spec.privacy.noise == "seeded"
        ),
        "Settings were tuned on the private data, which is not accounted: the bound is not the whole story.": (
            spec.tuned == "private"
        ),
        f"At epsilon {shown_number(epsilon)} the worst-case odds protect little.": WEAK_EPSILON <= epsilon < math.inf,
        f"Only {n_people} {protected.several}: results are poor and the assumptions are fragile.": n_people < FEW_PEOPLE,
        "The list of labels is learned from the data within this bound: a label that few people have is left out on "
        "purpose, and their examples are not used.": spec.labels == "dp-learned" and math.isfinite(epsilon),
        "The datasets here are public: this is a simulation of what such a release would protect.": not is_own,
    }
    return tuple(line for line, holds in lines.items() if holds)
