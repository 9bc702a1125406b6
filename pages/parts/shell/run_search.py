"""Finding stored runs: by words, by the tags in their names, and as groups whose members can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dpcl_core.data import catalog as datasets
from dpcl_core.runs.sets import Sets
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.runs.run import Named, Run
    from dpcl_core.runs.store import Store

LISTED = 500  # runs that a page lists at most; the search goes through all
PLACEHOLDER = "name, #tag, method, data, id"
HELP = """A word with # in a run's name is a tag: rename the run to add one. A preset's name finds the runs that were
started from it."""


def wanted(text: str, store: Store) -> Callable[[Named], bool] | None:
    """Tells, for `Store.list_runs`, which runs have every word in their name, id, method, dataset or the preset whose set
    they belong to; None where no word is given.

    A word with # must be a whole tag.
    """
    words = text.lower().split()
    if not words:
        return None
    preset_of_runs = Sets(store).preset_of_runs()

    def has_all(run: Named) -> bool:
        said = " ".join((run.id, run.name, preset_of_runs.get(run.id, ""), run.method, run.dataset)).lower()
        return all(word in (tags(run.name) if word.startswith("#") else said) for word in words)

    return has_all


def tags(name: str) -> tuple[str, ...]:
    """The words with # in a run's name, in lower case."""
    return tuple(word for word in name.lower().split() if word.startswith("#") and len(word) > 1)


def groups(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Groups of at least two runs, as ids by the group's name, in the runs' order.

    One for each tag, and one for all runs that were tested on the same examples in the same tasks.
    """
    by_tag: dict[str, list[str]] = {}
    by_test: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        for tag in dict.fromkeys(tags(run.name)):
            by_tag.setdefault(tag, []).append(run.id)
        if (spec := run.readable_spec) is not None:
            test = (spec.data.dataset, spec.data.test_per_class, spec.public_labels, spec.scenario)
            by_test.setdefault(test, []).append(run)
    found = {tag: ids for tag, ids in by_tag.items() if len(ids) > 1}
    for same in by_test.values():
        if len(same) > 1:
            name = _stream(same[0].spec)
            n_alike = sum(other == name or other.startswith(f"{name} (") for other in found)
            found[f"{name} ({n_alike + 1})" if n_alike else name] = [run.id for run in same]
    return found


def _stream(spec: RunSpec) -> str:
    return f"{datasets.called(spec.data.dataset)}: {scenarios.card(spec.scenario.kind).title.lower()}"
