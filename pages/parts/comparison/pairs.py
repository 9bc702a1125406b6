"""Whether runs can be compared, and where their settings differ. Pure: no streamlit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dpcl_core.figures.picture import epsilons
from dpcl_core.privacy.statement import Standing
from dpcl_core.spec import RunSpec

_TOLD = 3  # differing settings that one line has room for


def different_tests(specs: Mapping[str, RunSpec]) -> str | None:
    """One sentence where the runs were not tested on the same examples in the same tasks (None: they were)."""
    names = list(specs)
    for name in names[1:]:
        first, other = specs[names[0]], specs[name]
        pair = f"{names[0]} and {name}"
        if first.data.dataset != other.data.dataset:
            return (
                f"{pair} were tested on different data ({first.data.dataset}, {other.data.dataset}): "
                "a difference in accuracy says nothing about the methods."
            )
        if first.data.test_per_class != other.data.test_per_class:
            return f"{pair} were tested on different subsets of {first.data.dataset}: do not read small differences."
        if first.public_labels != other.public_labels:
            return f"{pair} had other classes to tell apart: a difference in accuracy says nothing about the methods."
        if first.scenario != other.scenario:
            return f"{pair} met the classes in another stream: accuracy over tasks means something else in each."
    return None


def unequal_promises(standings: Mapping[str, Standing]) -> str | None:
    """What the budgets of some runs are that those of others are not, by name (None: all are of one kind)."""
    if len(set(standings.values())) < 2:
        return None
    claimed, of_replay = ([name for name, kind in standings.items() if kind == wanted] for wanted in ("claimed", "replay"))
    said = []
    if claimed:
        one = len(claimed) == 1
        said.append(
            f"The ε of {' and '.join(claimed)} {'is a claim' if one else 'are claims'} that no ledger bears out: at the "
            f"same ε {'it promises' if one else 'they promise'} nothing, and the others do."
        )
    if of_replay:
        said.append(
            f"The ε of {' and '.join(of_replay)} is the replay's alone: the head is not private, and the whole has no bound."
        )
    return " ".join(said)


def shared_budgets(specs: Sequence[RunSpec]) -> list[float]:
    """The budgets that every run has, smallest first."""
    return sorted(set.intersection(*(set(spec.privacy.epsilons) for spec in specs))) if specs else []


def differences(specs: Mapping[str, RunSpec]) -> tuple[list[dict[str, str]], int]:
    """One row a setting that differs, by dotted key, with a column a run; and how many settings are equal in all."""
    flat = {name: _flat(spec) for name, spec in specs.items()}
    keys = list(dict.fromkeys(key for settings in flat.values() for key in settings))
    rows, n_equal = [], 0
    for key in keys:
        values = [flat[name].get(key, "not a setting here") for name in flat]
        if len(set(values)) > 1:
            rows.append({"setting": key} | dict(zip(flat, values, strict=True)))
        else:
            n_equal += 1
    return rows, n_equal


def what_differs(specs: Mapping[str, RunSpec]) -> str | None:
    """In which settings runs of one method on one dataset differ, in a line (None: of several, of one run, or in none)."""
    same = len({(spec.method, spec.data.dataset) for spec in specs.values()}) == 1
    rows, _ = differences(specs)
    if not same or not rows:
        return None
    names = [row["setting"].rpartition(".")[2].replace("_", " ") for row in rows[:_TOLD]]
    said = [f"{name} ({' / '.join(row[run] for run in specs)})" for name, row in zip(names, rows, strict=False)]
    more = f" and {len(rows) - _TOLD} more" if len(rows) > _TOLD else ""
    return f"They differ in {'; '.join(said)}{more}."


def _flat(spec: RunSpec) -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in spec.model_dump().items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": _shown(f"{key}.{name}", inner) for name, inner in value.items()}
        else:
            flat[key] = _shown(key, value)
    return flat


def _shown(key: str, value: object) -> str:
    if value is None:
        return "all" if key.startswith("data.") else "automatic"
    if key == "privacy.epsilons" and isinstance(value, tuple):
        return epsilons(value)
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    if isinstance(value, float):
        return "∞" if math.isinf(value) else f"{value:g}"
    return str(value)
