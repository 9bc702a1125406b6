"""The gallery of questions: a card for each, drawn in the browser by the element in `assets/gallery/`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

import streamlit as st

from dpcl_core import checks, presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.elements.element import GALLERY
from dpcl_core.errors import DataMissing
from dpcl_core.figures.picture import span
from dpcl_core.papers import questions
from dpcl_core.papers.questions import Duration, Question
from dpcl_core.runs import process, shards
from dpcl_core.runs.run import Run
from pages.parts import fields, figure_card, link, rooms, run_panel, state
from pages.parts.text import capital, plain

# Starting all runs of a question as one entry of the queue, and how long they take.


def sets() -> shards.Sets:
    """The sets of the store."""
    return shards.Sets(state.store())


def start_question(name: str) -> None:
    """Queues all runs of the preset as one entry. Raises BadInput if one of them cannot be carried out here."""
    runs, device = questions.specs(name), process.default()
    for spec in runs.values():
        checks.check_run(spec)
    cheap = questions.cheapest_first(runs, state.store(), device)
    # The only run of a question has the question's title, as when it is started on Train.
    titles = questions.titles(name) if len(runs) > 1 else dict.fromkeys(runs, presets.about(name).title)
    set_id = sets().create(name, cheap, device=device, once=True, titles=titles)
    rooms.share(run.id for run in sets().get(set_id).runs.values())
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
    return [titles[label] for label in questions.cheapest_first(questions.specs(name), state.store(), process.default())]


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


FORMS: Final = {"small": "small", "bundled": "larger", "full": "as published"}
GROUPS: Final = {"paper": "paper", "shows": "what it shows"}


def draw(view: state.View, by: str) -> str:
    """Draws all questions, group by group, each with its forms, their durations and whether they have an answer.

    Returns what they are grouped by.
    """
    with st.container(key="group-row", horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Grouped by", width="content")
        by = fields.segmented(view, "by", "Grouped by", GROUPS, start=by, label_visibility="collapsed")
    if refused := st.session_state.pop("refused", None):
        st.error(plain(refused))
    key = view.key("gallery")

    def go(name: str | None, *, is_started: bool) -> None:
        if name is not None:
            if is_started:
                start_question(name)
            view.go({**link.parameters(), "v": "1", "question": name})

    def opened() -> None:
        go(pressed(key, "open"), is_started=False)

    def started() -> None:
        run_panel.attempt(partial(go, pressed(key, "start"), is_started=True))()

    figure_card.mounted(GALLERY)(key=key, data=document(by), on_open_change=opened, on_start_change=started)
    return by


def pressed(key: str, what: str) -> str | None:
    """The question that the browser reports, if it is one."""
    reported = st.session_state.get(key, {}).get(what)
    return reported if reported in presets.names() else None


def document(by: str) -> dict[str, object]:
    """What the element is drawn from: the groups with their cards, for `by` "paper" or "shows"."""
    store, every = state.store(), questions.questions()
    names = [form.name for question in every for form in question.forms.values()]
    durations, answered = questions.durations(names, store), questions.n_answered(names, store)
    running = under_way()
    groups: dict[str, list[dict[str, object]]] = {}
    if by == "shows":  # in the order of the table, else as the papers come
        groups = {title: [] for title in questions.SHOWS.values()}
    for question in every:
        one = _card(question, by, durations, answered, running)
        groups.setdefault(question.group if by == "paper" else question.shows, []).append(one)
    return {"groups": [{"title": title, "cards": cards} for title, cards in groups.items()]}


def _card(
    question: Question, by: str, durations: Mapping[str, Duration], answered: Mapping[str, tuple[int, int]],
    running: Collection[str],
) -> dict[str, object]:  # fmt: skip
    forms = []
    smallest = question.smallest.name
    missing = lacking(smallest)
    for size, form in question.forms.items():
        results = zip(answered[form.name], ("finished here", "recorded"), strict=True)
        found = ", ".join(f"{n} {what}" for n, what in results if n)
        total = len(questions.specs(form.name))
        known = f"{total} run{'s' * (total > 1)}: {found}" if found else "No results yet"
        known = "Under way" if form.name in running else known
        is_only = len(question.forms) == 1
        title = "" if is_only else f"{capital(FORMS[size])}. "
        said = f"{title}{takes(durations[form.name])} {known}."
        if missing is not None and form.name == smallest:
            said += f" {_lacked(missing)}"
        label = "Open" if is_only else f"Open ({FORMS[size]})"
        forms.append({"label": label, "name": form.name, "query": f"?v=1&question={form.name}&by={by}", "said": said})
    start = None if missing is not None or smallest in running else {"label": "Start", "name": smallest}
    return {"title": question.title, "text": question.text, "forms": forms, "start": start}


def _lacked(missing: DataMissing) -> str:
    """What a question lacks on this computer, in one sentence; its own page says how to get it."""
    match missing.field:
        case "data.dataset":
            return f"Its data are not on this computer: {datasets.card(str(missing.value)).title}."
        case "data.backbone":
            return f"Its network is not on this computer: {backbones.card(str(missing.value)).title}."
        case _:
            return "It needs packages that are not on this computer."


