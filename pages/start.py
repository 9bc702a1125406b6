"""Start page: ε to drag, questions to try, and the datasets of this computer."""

from __future__ import annotations

from typing import Final

import streamlit as st

from dpcl_core.spec import LabelSetting
from pages.parts.claims.privacy_bar import privacy_bar
from pages.parts.shell import drag, link
from pages.parts.shell.header import header
from pages.parts.training import budget_source

LABELS: Final[LabelSetting] = "prior-const"
N_TASKS = 5
LEAD = (
    "A classifier learns ten handwritten digits, two at a time, and keeps no picture. **Noise hides the contribution of any "
    "single picture.** One number, ε, sets how much noise. Drag it."
)
HELP = """**ε** bounds how much a release may reveal about one person: at a small ε, taking part changes almost nothing that
can be observed. **A task** is a batch of new classes; **forgetting** is the accuracy that earlier tasks lose. Everything
here works by keyboard: arrow keys, Home and End move the slider."""
PUBLIC_ONLY = (
    "This page uses public teaching data on purpose. To redraw at once, it holds class sums without noise, and the same "
    "noise for every ε and every visit. Either one voids any guarantee. Never do this with private data."
)


def page() -> None:
    """The page. Slow imports happen after the picture is drawn."""
    header("What does privacy cost a learner?", "What is this, in 60 seconds?", help_text=HELP)
    st.markdown(LEAD)
    _hero()
    _questions()
    _this_computer()


@st.fragment
def _hero() -> None:
    source = budget_source.digits(LABELS, N_TASKS)
    with st.container(key="card-hero", gap="small"):
        is_plain = bool(st.session_state.get("hero-plain", False))
        epsilon = drag.drag(source, 1.0, key="hero", panels=("accuracy", "matrix"), is_plain=is_plain)
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            label, query = (
                ":primary[Change more than ε: the playground →]",
                {"v": link.VERSION, "e": link.BUDGET.write(epsilon)},
            )
            st.page_link("pages/playground.py", label=label, query_params=query)
            st.page_link("pages/privacy.py", label=":primary[What does ε promise? →]")
            query = {"v": link.VERSION, "l": "label", "s": "1"}
            st.page_link("pages/lessons.py", label=":primary[Start lesson 1 →]", query_params=query)
            st.toggle("Plain slider", key="hero-plain", help="For browsers in which the picture does not appear.")
        st.caption(
            f"{source.dataset}, n = {source.n_people:,}, δ = {source.delta:g}. Line: mean of {source.n_seeds} seeds; band: "
            f"95 % interval. {PUBLIC_ONLY}"
        )
    privacy_bar({epsilon: budget_source.digits_guarantee(LABELS, N_TASKS, epsilon)}, chosen=epsilon)


def _questions() -> None:
    from dpcl_core import presets  # loads all cards, which the first picture does not need
    from pages.parts.training import train_form

    shown = presets.names()[:3]
    st.header("Questions to run for real", anchor=False)
    for column, name in zip(st.columns(len(shown)), shown, strict=True):
        preset = presets.about(name)
        with column, st.container(key=f"card-preset-{name}", gap="small"):
            st.markdown(f"**{preset.title}**")
            st.markdown(preset.question)
            st.caption(f"About {preset.seconds:.0f} s on two processor cores" + (", live" if preset.live_demo else "") + ".")
            st.page_link(
                "pages/train.py", label=":primary[Open it →]", query_params=train_form.parameters_of(presets.startable(name))
            )


def _this_computer() -> None:
    from dpcl_core.data import catalog
    from dpcl_core.runs import devices

    device = "its processor" if devices.default() == "cpu" else "its graphics card"
    ready = [card.title for card in catalog.CARDS.values() if catalog.available(card) is None]
    missing = len(catalog.CARDS) - len(ready)
    rest = f"; {missing} more can be added, see Train" if missing else ""
    st.caption(f"This computer trains on {device}. Datasets ready to use: {', '.join(ready)}{rest}.")


if __name__ == "__main__":
    page()
