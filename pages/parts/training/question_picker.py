"""The question that the form of Train starts from: its list, its link and the way back to it."""

from __future__ import annotations

from typing import cast

import streamlit as st

from dpcl_core import checks, presets
from dpcl_core.errors import BadInput
from dpcl_core.papers import questions
from pages.parts.questions import gallery, starting
from pages.parts.shell import state
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import train_form


def link(name: str) -> dict[str, str]:
    """The link to the first run of a question, which the form then names."""
    return train_form.parameters_of(presets.startable(name), question=name)


def pick(view: View) -> None:
    """Draws the list of presets; a picked one fills in the form."""
    titles = _titles()
    key = view.key("preset")

    def load() -> None:
        picked = st.session_state[key]
        if picked is not None:
            view.go(link(picked))

    st.selectbox(
        "Preset", list(titles), index=None, placeholder="Start from a question …",
        format_func=titles.__getitem__, key=key, on_change=load,
    )  # fmt: skip


def origin(view: View, values: train_form.Values) -> None:
    """Draws which question the form started from, with a link to its answer; once changed, with the way back."""
    name = cast("str | None", view["question"])
    if name is None:
        return
    is_changed = not _is_as_asked(name, values)
    about = presets.about(name)
    st.caption(plain(f"From the question “{about.title}”{'; changed.' if is_changed else '.'}"))
    if is_changed:
        st.button("Back to it", key="back-to-question", type="tertiary", on_click=lambda: view.go(link(name)))
    st.page_link("pages/questions.py", label="Its answer", query_params={"v": "1", "question": name})


def smaller(view: View, values: train_form.Values) -> None:
    """Draws "The same, small" where a question cannot be started as it is, but in a smaller form."""
    name = cast("str | None", view["question"])
    if name is None or not _is_as_asked(name, values):
        return
    for size, form in questions.of_preset(name).forms.items():  # smallest first
        if form.name == name:
            return
        if _is_startable(form.name):
            label = f"The same, {gallery.FORMS[size]}"
            st.button(label, key="smaller-form", width="stretch", on_click=view.go, args=(link(form.name),))
            return


def _is_as_asked(name: str, values: train_form.Values) -> bool:
    """Whether the form has the settings of the question's first run, whether or not it can be carried out here."""
    try:
        return checks.parse(train_form.raw_of(values)).digest() == questions.digests(name)[0]
    except BadInput:
        return False


def _is_startable(name: str) -> bool:
    try:
        checks.check(next(iter(questions.specs(name).values())))
    except BadInput:
        return False
    return True


def _titles() -> dict[str, str]:
    """What the list of presets shows, by name: title, form and duration of all runs, as the gallery has them."""
    titles = {}
    durations = questions.durations(presets.names(), state.store())
    forms = {form.name: (one, size) for one in questions.questions() for size, form in one.forms.items()}
    for name in presets.names():
        question, size = forms[name]
        form = f", {gallery.FORMS[size]}" if len(question.forms) > 1 else ""
        n_runs = len(questions.specs(name))
        runs = f"all {n_runs} runs: " if n_runs > 1 else ""
        titles[name] = f"{question.title}{form} ({runs}{starting.in_short(durations[name])})"
    return titles
