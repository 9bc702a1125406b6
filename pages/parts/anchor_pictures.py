"""Figures of one round's client lists, the same for a simulation and for a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import streamlit as st

from dpcl_core.events import Signatures
from dpcl_core.figures.picture import Picture, Provenance
from dpcl_core.runs import frames
from pages.parts import figure_card, layout, link, text
from pages.parts.state import View

if TYPE_CHECKING:
    import pandas as pd

    from dpcl_core.figures.matching import Extent, Space

MAPS = {"signature": "signatures", "mean": "means", "both": "both"}
COLOURS = {"group": "matched group", "mode": "true mode"}
FIELDS: list[link.Field[Any]] = [
    link.Field("map", "g", "map", link.Choice(tuple(MAPS)), "signature"),
    link.Field("colour", "h", "colour", link.Choice(tuple(COLOURS)), "group"),
]


@dataclass(frozen=True)
class Scene:
    """What is drawn: all `rounds` of one model, and the index `at` of the chosen one; `key` names it in widget keys.

    `m`: number of anchors used for matching, None if unknown. `agreement` measures the matchers; `sweep` and `anchors` give
    the event with measurements that take longer. All three are called only when drawn.
    """

    rounds: tuple[Signatures, ...]
    at: int
    key: str
    source: Provenance
    agreement: Callable[[], Mapping[str, float]]
    sweep: Callable[[], Signatures]
    anchors: Callable[[], Signatures]
    is_live: bool = False
    m: int | None = None

    @property
    def now(self) -> Signatures:
        return self.rounds[self.at]

    @cached_property
    def entries(self) -> pd.DataFrame:
        """The entries of the chosen round, as `runs.matching.entries` gives them; several figures use them."""
        return frames.entries([self.now])

    def show(self, picture: Picture, **card: Any) -> None:
        """Draws a figure of the scene in a card (`figure_card.show`)."""
        figure_card.show(picture, self.source, linked=True, live=self.is_live, moved=True, **card)

    @property
    def mode_names(self) -> tuple[str, ...]:
        return self.now.mode_names or tuple(f"mode {mode + 1}" for mode in range(max(self.now.entries.mode, default=-1) + 1))


def maps(view: View, scene: Scene) -> Mapping[str, object]:
    """Draws the map of signatures, of means, or both, on axes fixed over rounds; returns the chosen map and colour."""
    from dpcl_core.figures.matching import on_map

    entries, prototypes = scene.entries, frames.prototypes([scene.now])
    has_modes = bool((entries["mode"] >= 0).any())
    with layout.card("anchor-map"):
        st.markdown("**Every list entry on the map** :small[the simulator's view, not visible to the server]")
        with st.container(key="map-row", horizontal=True, vertical_alignment="center", gap="small"):
            shown = _segmented(view, "map", "Map", MAPS)
            colour = _segmented(view, "colour", "Colour", COLOURS) if has_modes else "group"
        spaces: list[Space] = ["signature", "mean"] if shown == "both" else [cast("Space", shown)]
        drawn = {
            space: figure_card.kept(on_map)(
                entries, prototypes, space=space, by=cast("Literal['group', 'mode']", colour),
                within=_extent(scene, space), dark=text.is_dark(),
            )
            for space in spaces
        }  # fmt: skip
        for place, space in zip(st.columns(len(spaces), gap="small"), spaces, strict=True):
            with place:
                if len(spaces) == 2:
                    st.caption("Signatures" if space == "signature" else "Means")
                figure_card.drawing(drawn[space], f"map-{space}-{scene.key}")
        layout.await_paint()
        st.caption(_legend(scene, spaces))
        first = drawn[spaces[0]]
        figure_card.footer(first, scene.source, key="anchor-map", table=entries, linked=True, live=scene.is_live)
    return {"map": shown, "colour": colour if has_modes else view["colour"]}


def bars(scene: Scene) -> None:
    """Draws the adjusted Rand index of every matcher against the true modes of these lists."""
    import pandas as pd

    from dpcl_core.figures import matching as figures

    rows = [(name, name == scene.now.matcher, value) for name, value in scene.agreement().items()]
    table = pd.DataFrame(rows, columns=["matcher", "is_own", "agreement"])
    scene.show(
        figure_card.kept(figures.matcher_bars)(table, dark=text.is_dark()), key="agreement",
        title="Agreement with the truth",
        note="same lists; 0: chance, 1: all right", table=table,
    )  # fmt: skip
    _subsample_caption(scene.now)


def margins(scene: Scene) -> None:
    """Draws the margin of each match and, where it is defined, its regret."""
    from dpcl_core.figures import matching

    entries, dark = scene.entries, text.is_dark()
    scene.show(
        figure_card.kept(matching.margins)(entries, dark=dark), key="margins", title="How sure is each match?",
        note="hollow, below the dotted line: the second group is nearly as close", table=entries,
    )  # fmt: skip
    if entries["regret"].notna().any():
        scene.show(
            figure_card.kept(matching.margins)(entries, regret=True, dark=dark), key="regrets",
            title="What would another group cost?", note="extra cost without this group, relative to its list's cost",
        )  # fmt: skip


def confusion(scene: Scene) -> None:
    """Draws the table of groups against true modes."""
    from dpcl_core.figures import matching as figures

    entries = scene.entries
    picture = figures.confusion(entries, scene.now.prototypes.name, scene.mode_names, dark=text.is_dark())
    table: pd.DataFrame = entries.groupby(["mode", "name"], as_index=False).size()
    scene.show(
        picture, key="confusion", title="Matched and true", note="entries; only the simulator knows the truth", table=table,
    )  # fmt: skip


def by_noise(scene: Scene, chosen: float | None) -> None:
    """Draws agreement against noise, with the noise that the budget requires."""
    from dpcl_core.figures import matching as figures

    swept = scene.sweep()
    if not swept.agreement_at:
        _not_yet("Agreement against noise")
        return
    table = frames.agreement([swept])
    scene.show(
        figures.agreement_by_noise(table, swept.demanded, chosen=chosen, dark=text.is_dark()), key="by-noise",
        title="Agreement against noise", note="dashed: noise that ε requires, by who is trusted", table=table,
    )  # fmt: skip
    st.caption(
        "Local: every client adds noise to its list before sending it. Central: the noise is added to the sum over all "
        "clients; the line shows the resulting noise on their average. Each point is one draw of the noise."
    )
    _subsample_caption(swept)


def anchors(scene: Scene) -> None:
    """Draws how well more anchors separate the modes."""
    from dpcl_core.figures import grids as figures

    scored = scene.anchors()
    if scored.anchors is None:
        _not_yet("What more anchors buy")
        return
    table = frames.anchors([scored])
    scene.show(
        figures.diagnostics(table, chosen=scene.m, dark=text.is_dark()), key="anchor-scores", title="What more anchors buy",
        note="gaps in standard deviations of a signature", table=table,
    )  # fmt: skip
    st.caption(
        "p̂ is a share of anchors, so more anchors do not raise it. What grows is the largest gap seen at any anchor. "
        "Theorem 2 says when some anchor separates entries of different modes, not that entries of one mode stay together. "
        "Here it counts the entries drawn above, with η = 0.05."
    )
    _subsample_caption(scored)


def signal(scene: Scene) -> None:
    """Draws the length of the signal against the length of the noise, for each released statistic."""
    from dpcl_core.figures import grids as figures

    table = frames.statistics([scene.now])
    scene.show(
        figures.signal_and_noise(table, dark=text.is_dark()), key="signal", title="Signal against noise",
        note="lengths, logarithmic", table=table,
    )  # fmt: skip


def _not_yet(title: str) -> None:
    with layout.card("anchor-not-yet"):
        st.markdown(f"**{title}**")
        st.caption(
            "Measured once in a run, for its first seed, after the last task. Older runs, and entries with full covariance "
            "matrices, have no measurement for lists of more than 80 entries."
        )


def _subsample_caption(event: Signatures) -> None:
    """Says which entries of long lists were used to compare the matchers."""
    n_entries = len(event.entries.client)
    if event.n_compared is None or event.n_compared == n_entries:
        return
    from dpcl_core.explorers import matching_log

    st.caption(
        f"The lists are long, so {event.n_compared:,} of {n_entries:,} entries were compared: from the first clients of "
        f"every task, at most {matching_log.SUBSAMPLE_SIZE} of a list, taking one of each kind before a second of any."
    )


def _legend(scene: Scene, spaces: Sequence[Space]) -> str:
    shares = dict(zip(("mean", "signature"), scene.now.shown, strict=True))
    axes = " and ".join(f"{100 * shares[space]:.0f} % of the variance of {MAPS[space]}" for space in spaces)
    return (
        "Colour: group. Shape: client. Size: weight. Hollow and faint: ambiguous. Ring: wrong group. Cross: the group's "
        f"prototype; dotted ellipse: two standard deviations of its privacy noise. Names without room appear on hover. "
        f"The two axes show {axes}."
    )


def _extent(scene: Scene, space: Space) -> Extent:
    """The same axis ranges for every round, so that only the lists move."""
    from dpcl_core.figures.matching import extent

    entries = scene.entries if len(scene.rounds) == 1 else frames.entries(scene.rounds)
    return extent(entries, frames.prototypes(scene.rounds), space)


def _segmented(view: View, name: str, title: str, options: Mapping[str, str]) -> str:
    start = str(view[name])
    return (
        st.segmented_control(
            title, list(options), default=start, format_func=options.__getitem__, required=True, key=view.key(name),
            label_visibility="collapsed",
        ) or start
    )  # fmt: skip
