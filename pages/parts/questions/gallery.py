"""The gallery of questions: a card for each, drawn in the browser by the element in `assets/gallery/`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

import streamlit as st

from dpcl_core import presets
from dpcl_core.backbones import catalog as backbones
from dpcl_core.data import catalog as datasets
from dpcl_core.elements.element import GALLERY
from dpcl_core.errors import DataMissing
from dpcl_core.papers import questions
from dpcl_core.papers.questions import Duration, Question
from pages.parts.questions import starting
from pages.parts.shell import address, state
from pages.parts.shell.mount import mounted
from pages.parts.shell.text import capital, plain
from pages.parts.shell.view import View
from pages.parts.training import run_panel

FORMS: Final = {"small": "small", "bundled": "larger", "full": "as published"}
GROUPS: Final = {"paper": "paper", "shows": "what it shows"}


def draw(view: View, by: str) -> str:
    """Draws all questions, group by group, each with its forms, their durations and whether they have an answer.

    Returns what they are grouped by.
    """
    with st.container(key="group-row", horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Grouped by", width="content")
        picked = st.segmented_control(
            "Grouped by", list(GROUPS), default=by, format_func=GROUPS.__getitem__, key=view.key("by"), required=True,
            label_visibility="collapsed",
        )  # fmt: skip
    by = str(picked or by)
    if refused := st.session_state.pop("refused", None):
        st.error(plain(refused))
    key = view.key("gallery")

    def go(name: str) -> None:
        view.go({**address.parameters(), "v": "1", "question": name})

    def opened() -> None:
        if (name := pressed(key, "open")) is not None:
            go(name)

    def start(name: str) -> None:
        starting.start(name)
        go(name)

    def started() -> None:
        if (name := pressed(key, "start")) is not None:
            run_panel.attempt(partial(start, name))()

    mounted(GALLERY)(key=key, data=document(by), on_open_change=opened, on_start_change=started)
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
    running = starting.under_way()
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
    missing = starting.lacking(smallest)
    for size, form in question.forms.items():
        here, recorded = answered[form.name]
        known = "Under way" if form.name in running else _known(here, recorded, len(questions.specs(form.name)))
        is_only = len(question.forms) == 1
        title = "" if is_only else f"{capital(FORMS[size])}. "
        said = f"{title}{starting.takes(durations[form.name])} {known}."
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


def _known(here: int, recorded: int, total: int) -> str:
    parts = [f"{n} {what}" for n, what in ((here, "finished here"), (recorded, "recorded")) if n]
    return f"{total} run{'s' if total > 1 else ''}: {', '.join(parts)}" if parts else "No results yet"
