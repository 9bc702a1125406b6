"""The pictures of one round's lists, the same for a simulation and for a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import streamlit as st

from dpcl_core.events import Signatures
from dpcl_core.figures.picture import Provenance
from pages.parts.shell import figure_card, layout, link, style
from pages.parts.shell.view import View

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.figures.signatures import Extent, Space

MAPS = {"signature": "signatures", "mean": "means", "both": "both"}
COLOURS = {"group": "group found", "mode": "what it really is"}
FIELDS: list[link.Field[Any]] = [
    link.Field("map", "g", "map", link.Choice(tuple(MAPS)), "signature"),
    link.Field("colour", "h", "colour", link.Choice(tuple(COLOURS)), "group"),
]


@dataclass(frozen=True)
class Scene:
    """What is drawn: all rounds of one model, and which is looked at; `own` names it in keys of widgets and charts.

    `m`: by how many anchors it was matched, None where nobody knows. `agreement` measures the matchers, `sweep` and
    `anchors` give the event with what takes longer: called when drawn.
    """

    told: tuple[Signatures, ...]
    at: int
    own: str
    source: Provenance
    agreement: Callable[[], Mapping[str, float]]
    sweep: Callable[[], Signatures]
    anchors: Callable[[], Signatures]
    is_live: bool = False
    m: int | None = None

    @property
    def now(self) -> Signatures:
        return self.told[self.at]

    @cached_property
    def entries(self) -> pd.DataFrame:
        """The entries of the round looked at, as `runs.matching.entries` has them: several pictures show them."""
        from dpcl_core.runs import matching

        return matching.entries([self.now])

    @property
    def mode_names(self) -> tuple[str, ...]:
        return self.now.mode_names or tuple(f"mode {mode + 1}" for mode in range(max(self.now.entries.mode, default=-1) + 1))


def maps(view: View, scene: Scene, share: Mapping[str, str] | None) -> Mapping[str, object]:
    """The map of signatures, of means, or both side by side, on axes that stay over rounds; gives what is looked at."""
    from dpcl_core.figures import signatures
    from dpcl_core.runs import matching

    entries, prototypes = scene.entries, matching.prototypes([scene.now])
    has_modes = bool((entries["mode"] >= 0).any())
    with layout.card("anchor-map"):
        st.markdown("**Every list entry on the map** :small[the simulator's view, not visible to the server]")
        with st.container(key="map-row", horizontal=True, vertical_alignment="center", gap="small"):
            shown = _segmented(view, "map", "Map", MAPS)
            colour = _segmented(view, "colour", "Colour", COLOURS) if has_modes else "group"
        spaces: list[Space] = ["signature", "mean"] if shown == "both" else [cast("Space", shown)]
        pictures = {
            space: signatures.on_map(
                entries, prototypes, space=space, by=cast("Literal['group', 'mode']", colour),
                within=_extent(scene, space), dark=style.is_dark(),
            )
            for space in spaces
        }  # fmt: skip
        for place, space in zip(st.columns(len(spaces), gap="small"), spaces, strict=True):
            with place:
                if len(spaces) == 2:
                    st.caption("Signatures" if space == "signature" else "Means")
                figure = pictures[space].figure
                key = f"chart-map-{space}-{scene.own}"
                st.plotly_chart(
                    figure, theme=None, width="stretch", key=key, config=figure_card.CONFIG, alt=pictures[space].alt
                )
        st.caption(_legend(scene, spaces))
        first = pictures[spaces[0]]
        figure_card.footer(first, scene.source, key="anchor-map", table=entries, share=share, live=scene.is_live)
    return {"map": shown, "colour": colour if has_modes else view["colour"]}


def bars(scene: Scene, share: Mapping[str, str] | None) -> None:
    """How far each matcher agrees with the truth on these lists."""
    import pandas as pd

    from dpcl_core.figures import matching as figures

    found = scene.agreement()
    rows = [(name, name == scene.now.matcher, value) for name, value in found.items()]
    table = pd.DataFrame(rows, columns=["matcher", "is_own", "agreement"])
    figure_card.show(
        figures.bars(table, dark=style.is_dark()), scene.source, key="agreement", title="Agreement with the truth",
        note="same lists; 0: chance, 1: all right", table=table, share=share, live=scene.is_live,
    )  # fmt: skip
    _say_part(scene.now)


def margins(scene: Scene, share: Mapping[str, str] | None) -> None:
    """How sure each match is."""
    from dpcl_core.figures import signatures

    entries, dark = scene.entries, style.is_dark()
    figure_card.show(
        signatures.margins(entries, dark=dark), scene.source, key="margins", title="How sure is each match?",
        note="dotted: below it the second group is nearly as near (hollow)", table=entries, share=share,
        live=scene.is_live,
    )  # fmt: skip
    if entries["regret"].notna().any():
        figure_card.show(
            signatures.margins(entries, regret=True, dark=dark), scene.source, key="regrets",
            title="What if it were barred?", note="extra cost of its list, over the list's own cost", share=share,
            live=scene.is_live,
        )  # fmt: skip


def confusion(scene: Scene, share: Mapping[str, str] | None) -> None:
    """Groups against true modes."""
    from dpcl_core.figures import matching as figures

    entries = scene.entries
    picture = figures.confusion(entries, scene.now.prototypes.name, scene.mode_names, dark=style.is_dark())
    table: pd.DataFrame = entries.groupby(["mode", "name"], as_index=False).size()
    figure_card.show(
        picture, scene.source, key="confusion", title="Found against true", note="entries; known to the simulator alone",
        table=table, share=share, live=scene.is_live,
    )  # fmt: skip


def by_noise(scene: Scene, chosen: float | None, share: Mapping[str, str] | None) -> None:
    """Agreement against noise, and which side of the cliff a budget lies on."""
    from dpcl_core.figures import matching as figures
    from dpcl_core.runs import matching

    of = scene.sweep()
    if not of.agreement_at:
        _not_yet("Agreement against noise")
        return
    table = matching.agreement([of])
    figure_card.show(
        figures.by_noise(table, of.demanded, chosen=chosen, dark=style.is_dark()), scene.source, key="by-noise",
        title="Agreement against noise", note="dashed: noise that ε demands, by who is trusted", table=table, share=share,
        live=scene.is_live,
    )  # fmt: skip
    st.caption(
        "Local: every list gets the noise before it is sent. Central: the noise goes on the sum of all clients, and what is "
        "drawn as its line is the noise on the average. Each point is one draw of the noise."
    )
    _say_part(of)


def anchors(scene: Scene, share: Mapping[str, str] | None) -> None:
    """What more anchors buy."""
    from dpcl_core.figures import anchors as figures
    from dpcl_core.runs import matching

    of = scene.anchors()
    if of.anchors is None:
        _not_yet("What more anchors buy")
        return
    table = matching.anchors([of])
    figure_card.show(
        figures.diagnostics(table, chosen=scene.m, dark=style.is_dark()), scene.source, key="anchor-scores",
        title="What more anchors buy", note="gaps in standard deviations of a signature", table=table, share=share,
        live=scene.is_live,
    )  # fmt: skip
    st.caption(
        "p̂ is a share of anchors, so more of them do not raise it; what grows is the largest gap that any of them sees. "
        "Theorem 2 says when entries of different modes come apart somewhere, and nothing about those of one mode staying "
        "together. Its entries are those drawn here, its η is 0.05."
    )
    _say_part(of)


def signal(scene: Scene, share: Mapping[str, str] | None) -> None:
    """Whether what is released is more than noise."""
    from dpcl_core.figures import anchors as figures
    from dpcl_core.runs import matching

    table = matching.statistics([scene.now])
    figure_card.show(
        figures.signal_and_noise(table, dark=style.is_dark()), scene.source, key="signal", title="Signal against noise",
        note="lengths, logarithmic", table=table, share=share, live=scene.is_live,
    )  # fmt: skip


def _not_yet(title: str) -> None:
    with layout.card("anchor-not-yet"):
        st.markdown(f"**{title}**")
        st.caption(
            "Measured once in a run: for its first seed, when its last task has been learned. Lists of more than 80 entries "
            "are left out where entries have whole covariance matrices, and in older runs."
        )


def _say_part(of: Signatures) -> None:
    """Says which part of long lists matchers were held against each other on."""
    n_entries = len(of.entries.client)
    if of.n_compared is None or of.n_compared == n_entries:
        return
    from dpcl_core.explorers import list_subsample

    st.caption(
        f"Lists are long here, so that {of.n_compared:,} of {n_entries:,} entries were compared: of the first clients of "
        f"every task, at most {list_subsample.KEPT} of a list, the first of each kind before the second of any."
    )


def _legend(scene: Scene, spaces: Sequence[Space]) -> str:
    held = dict(zip(("mean", "signature"), scene.now.shown, strict=True))
    axes = " and ".join(f"{100 * held[space]:.0f} % of the variance of {MAPS[space]}" for space in spaces)
    return (
        "Colour: group. Shape: client. Size: weight. Hollow and faint: ambiguous. Ring: wrong group. Cross: group's "
        f"prototype, its dotted ellipse two standard deviations of privacy noise; where names have no room they show on "
        f"hovering. The two axes show {axes}."
    )


def _extent(scene: Scene, space: Space) -> Extent:
    """The same part of the map for every round, so that what moves is the lists and not the map."""
    from dpcl_core.figures import signatures
    from dpcl_core.runs import matching

    entries = scene.entries if len(scene.told) == 1 else matching.entries(scene.told)
    return signatures.extent(entries, matching.prototypes(scene.told), space)


def _segmented(view: View, name: str, title: str, options: Mapping[str, str]) -> str:
    asked = str(view[name])
    return (
        st.segmented_control(
            title, list(options), default=asked, format_func=options.__getitem__, required=True, key=view.key(name),
            label_visibility="collapsed",
        ) or asked
    )  # fmt: skip
