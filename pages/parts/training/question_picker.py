"""The question that the form of Train starts from: its list, its link and the way back to it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

import streamlit as st

from dpcl_core import presets
from dpcl_core.papers import questions
from dpcl_core.spec import RunSpec
from pages.parts.shell.text import plain
from pages.parts.shell.view import View
from pages.parts.training import train_form


def link(name: str) -> dict[str, str]:
    """The link to the first run of a question, which the form then names."""
    return train_form.parameters_of(presets.startable(name), question=name)


def pick(view: View) -> None:
    """Draws the list of presets; a picked one fills in the form."""
    titles = _titles(tuple(presets.names()))
    key = view.key("preset")

    def load() -> None:
        picked = st.session_state[key]
        if picked is not None:
            view.go(link(picked))

    st.selectbox(
        "Preset", list(titles), index=None, placeholder="Start from a question …",
        format_func=titles.__getitem__, key=key, on_change=load,
    )  # fmt: skip


def origin(view: View, spec: RunSpec | None) -> None:
    """Draws which question the form started from, with a link to its answer; once changed, with the way back."""
    name = cast("str | None", view["question"])
    if name is None:
        return
    is_changed = spec is None or spec.digest() != questions.digests(name)[0]
    about = presets.about(name)
    st.caption(plain(f"From the question “{about.title}”{'; changed.' if is_changed else '.'}"))
    if is_changed:
        st.button("Back to it", key="back-to-question", type="tertiary", on_click=lambda: view.go(link(name)))
    st.page_link("pages/questions.py", label="Its answer", query_params={"v": "1", "question": name})


@lru_cache(maxsize=1)
def _titles(names: tuple[str, ...]) -> Mapping[str, str]:
    """What the list of presets shows, by name."""

    def title(preset: presets.Preset) -> str:
        duration = f"about {preset.seconds:g} s" if preset.seconds is not None else "not timed"
        return f"{preset.title} ({duration})"

    return {name: title(presets.about(name)) for name in names}
