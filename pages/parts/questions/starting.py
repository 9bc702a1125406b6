"""Starting all runs of a question as one entry of the queue, and how long they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcl_core import checks, presets
from dpcl_core.errors import DataMissing
from dpcl_core.figures.picture import span
from dpcl_core.papers import questions
from dpcl_core.papers.questions import Duration
from dpcl_core.runs import devices
from pages.parts.rooms import membership
from pages.parts.shell import state
from pages.parts.shell.text import capital

if TYPE_CHECKING:
    from dpcl_core.runs.run import Run
    from dpcl_core.runs.sets import Sets


def sets() -> Sets:
    """The sets of the store."""
    from dpcl_core.runs.sets import Sets

    return Sets(state.store())


def start(name: str) -> None:
    """Queues all runs of the preset as one entry. Raises BadInput if one of them cannot be carried out here."""
    runs, device = questions.specs(name), devices.default()
    for spec in runs.values():
        checks.check(spec)
    cheap = questions.cheapest_first(runs, state.store(), device)
    # The only run of a question has the question's title, as when it is started on Train.
    titles = questions.titles(name) if len(runs) > 1 else dict.fromkeys(runs, presets.about(name).title)
    set_id = sets().create(name, cheap, device=device, once=True, titles=titles)
    membership.share(run.id for run in sets().get(set_id).runs.values())
    state.executor().schedule()


def alone(name: str) -> Run | None:
    """The newest run with settings of this preset that this visitor has started alone and that is not over."""
    return next((run for run in _going() if _digest(run) in questions.digests(name)), None)


def under_way() -> set[str]:
    """The presets of which a set, or a run that this visitor has started alone, is not over."""
    going = {_digest(run) for run in _going()}
    return {*sets().under_way(), *(name for name in presets.names() if going and going & {*questions.digests(name)})}


def _going() -> list[Run]:
    """This visitor's runs that are not over, newest first: without those of sets, tunings and audits, and without parts."""
    store = state.store()
    mine = [run.id for run in store.unfinished() if store.may_change(run)]
    going = [run for run in store.listed(mine).values() if sets().of_run(run.id) is None] if mine else []
    return sorted(going, key=lambda run: run.created, reverse=True)


def _digest(run: Run) -> str | None:
    return run.readable_spec.digest() if run.readable_spec else None


def lacking(name: str) -> DataMissing | None:
    """The first of the packages, data and networks of a preset's runs that is not on this computer; None if all are."""
    alike = {(spec.method, spec.data.dataset, spec.data.backbone): spec for spec in questions.specs(name).values()}
    for spec in alike.values():
        try:
            checks.check_here(spec)
        except DataMissing as missing:
            return missing
    return None


def in_order(name: str) -> list[str]:
    """The readers' names of a preset's runs in the order in which Start queues them."""
    titles = questions.titles(name)
    return [titles[label] for label in questions.cheapest_first(questions.specs(name), state.store(), devices.default())]


def takes(duration: Duration) -> str:
    """The expected duration in a sentence, and where it was measured."""
    if duration.seconds is None:
        return f"{capital(in_short(duration))}."
    where = " on this computer" if duration.is_here else ", measured on another computer"
    first = " The first time takes longer: features are computed once." if duration.first_time else ""
    return f"{capital(in_short(duration))}{where}.{first}"


def in_short(duration: Duration) -> str:
    """The expected duration in a few words."""
    return "duration unknown" if duration.seconds is None else f"about {span(duration.seconds)}"
