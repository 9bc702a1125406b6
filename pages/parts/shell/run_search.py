"""Finding stored runs: by words, by the tags in their names, and as groups whose members can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dpcl_core.data import catalog as datasets
from dpcl_core.runs.sets import Sets
from dpcl_core.scenarios import catalog as scenarios
from dpcl_core.spec import RunSpec

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run
    from dpcl_core.runs.store import Store

PLACEHOLDER = "name, #tag, method, data, id"
HELP = """A word with # in a run's name is a tag: rename the run to add one. A preset's name finds the runs that were
started from it."""


def matching(runs: Iterable[Run], text: str, store: Store) -> list[Run]:
    """The store's runs that have every word in their name, id, method, dataset or the preset whose set they belong to.

    A word with # must be a whole tag.
    """
    words = text.lower().split()
    preset_of_runs = Sets(store).preset_of_runs() if words else {}
    texts = ((run, _text(run, preset_of_runs.get(run.id, ""))) for run in runs)
    return [run for run, said in texts if all(word in (tags(run) if word.startswith("#") else said) for word in words)]


def tags(run: Run) -> tuple[str, ...]:
    """The words with # in the run's name, in lower case."""
    return tuple(word for word in run.name.lower().split() if word.startswith("#") and len(word) > 1)


def groups(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Groups of at least two runs, as ids by the group's name, in the runs' order.

    One for each tag, and one for all runs that were tested on the same examples in the same tasks.
    """
    by_tag: dict[str, list[str]] = {}
    by_test: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        for tag in dict.fromkeys(tags(run)):
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
    dataset = datasets.CARDS.get(spec.data.dataset)
    return f"{dataset.title if dataset else spec.data.dataset}: {scenarios.card(spec.scenario.kind).title.lower()}"


def _text(run: Run, preset: str) -> str:
    spec = run.readable_spec
    parts = [run.id, run.name, preset, *([spec.method, spec.data.dataset] if spec else [])]
    return " ".join(parts).lower()
