"""Start page: one story, of what privacy costs a model that keeps learning, and three doors to the rest."""

from __future__ import annotations

import streamlit as st

from dpcl_core.elements import element
from pages.parts import layout, link
from pages.parts.figure_card import mounted, written_once

HELP = """Ten digits arrive in five pairs. After each pair the model publishes, for every digit, the sum of its
pictures plus new noise. **Bars**: the share of new pictures that it recognises, the mean of five draws of the noise; dashed:
the same when the pair was new. **ε** bounds what all of it tells about any one person: smaller ε, more noise.

**Your trace** is your picture, as dark as the best attacker beats a coin. The attacker knows your picture and all that was
published. Noise comes from a seed here: whoever knows the seed draws the same noise again and subtracts it. Real runs take
their noise from the operating system and keep no seed.

Arrow keys move the slider."""
_BEHIND = {
    "Learn": ("lessons", {"view": "steps", "v": link.VERSION, "l": "coin", "s": "1"}),
    "Ask": ("questions", None),
    "Use my data": ("data", None),
}


def page() -> None:
    """The page. It imports no numerics: the picture is drawn before anything else has loaded."""
    layout.header(element.TITLE, element.QUESTION, help_text=HELP)
    with layout.card("hero"):
        mounted(element.HERO)(key="hero", data=written_once(element.hero_document))
        st.caption(element.TEACHING)
    for column, (door, what) in zip(st.columns(len(element.DOORS)), element.DOORS.items(), strict=True):
        with column, layout.card(f"door-{door}"):
            page_name, query = _BEHIND[door]
            st.page_link(f"pages/{page_name}.py", label=f":primary[**{door}** {what}]", query_params=query)
    layout.way_here()


if __name__ == "__main__":
    page()
