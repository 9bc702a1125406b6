"""Matching clients on Explore: lists of simulated clients or of a run, and what other anchors or more noise would change."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from textwrap import shorten
from typing import Any, Literal, cast

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpcl_core.data import catalog as datasets
from dpcl_core.data import load
from dpcl_core.elements.element import ANCHORS, MATCHERS, anchors_document
from dpcl_core.events import Signatures
from dpcl_core.explorers import matching, matching_log
from dpcl_core.explorers.matching import COUNTS, LEVELS
from dpcl_core.explorers.matching_log import Rematch
from dpcl_core.figures import curves
from dpcl_core.figures import matching as figures
from dpcl_core.results import Result
from dpcl_core.runs import frames
from dpcl_core.spec import Cell
from pages.parts import anchor_source, fields, figure_card, layout, link, run_panel, state
from pages.parts.anchor_source import Scene, Setup
from pages.parts.text import WORDS, plain

MAPS = {"signature": "signatures", "mean": "means", "both": "both"}
COLOURS = {"group": "matched group", "mode": "true mode"}
FIELDS: list[link.Field[Any]] = [
    link.Field("map", "g", "map", link.Choice(tuple(MAPS)), "signature"),
    link.Field("colour", "h", "colour", link.Choice(tuple(COLOURS)), "group"),
]
_MOST_GROUPS, _LETTERS = 8, 90  # groups whose anchors are shown, and letters of a sentence


def maps(view: state.View, scene: Scene) -> None:
    """Draws the map of signatures, of means, or both, on axes fixed over rounds, and beside it the matchers."""
    entries, prototypes = scene.entries, frames.prototypes([scene.now])
    has_modes = bool((entries["mode"] >= 0).any())
    left, right = st.columns([1.6, 1], gap="small")
    with left, layout.card("anchor-map"):
        st.markdown("**Every list entry on the map** :small[the simulator's view, not visible to the server]")
        with st.container(key="map-row", horizontal=True, vertical_alignment="center", gap="small"):
            shown = fields.segmented(view, "map", "Map", MAPS, label_visibility="collapsed")
            look = partial(fields.segmented, view, "colour", "Colour", COLOURS, label_visibility="collapsed")
            colour = look() if has_modes else "group"
        spaces: list[figures.Space] = ["signature", "mean"] if shown == "both" else [cast("figures.Space", shown)]
        # The same axis ranges for every round, so that only the lists move.
        all_entries = entries if len(scene.rounds) == 1 else frames.entries(scene.rounds)
        every, by = (all_entries, frames.prototypes(scene.rounds)), cast("Literal['group', 'mode']", colour)
        pictures = []
        for place, space in zip(st.columns(len(spaces), gap="small"), spaces, strict=True):
            within = figures.extent(*every, space)
            pictures.append(figure_card.built(figures.on_map, entries, prototypes, by=by, space=space, within=within))
            with place:
                if len(spaces) == 2:
                    st.caption("Signatures" if space == "signature" else "Means")
                figure_card.drawing(pictures[-1], f"map-{space}-{scene.key}")
        layout.await_paint()
        shares = dict(zip(("mean", "signature"), scene.now.shown, strict=True))
        axes = " and ".join(f"{100 * shares[space]:.0f} % of the variance of {MAPS[space]}" for space in spaces)
        st.caption(f"{WORDS['matching_clients']['legend']} {axes}.")
        figure_card.footer(pictures[0], scene.source, key="anchor-map", table=entries, linked=True, live=scene.is_live)
    with right:
        bars(scene)


def nearest(result: Result, now: Signatures) -> None:
    """Draws the public anchors nearest to each group's released prototype: pictures or sentences, where there are some."""
    data, source = datasets.CARDS.get(result.spec.data.dataset), _rematch(_key(result, now), result, now)
    if data is None or source is None or not (examples := load.shown(data.kind, data.shape)):
        return
    with layout.card("group-anchors"):
        st.markdown("**What a group is near to** :small[the public anchors nearest to its released prototype]")
        of_groups = islice(zip(now.prototypes.name, source.nearest_anchors(len(examples)), strict=True), _MOST_GROUPS)
        found = [(name, examples[place]) for name, places in of_groups for place in places.tolist()]
        if data.kind == "image":
            st.image([cast("Any", one) for _, one in found], caption=[name for name, _ in found], width=64)
        else:
            lines = (f"- **{plain(name)}**: {plain(shorten(str(one), _LETTERS, placeholder=' …'))}" for name, one in found)
            st.markdown("\n".join(lines))


def bars(scene: Scene) -> None:
    """Draws the adjusted Rand index of every matcher against the true modes of these lists."""
    rows = [(name, name == scene.now.matcher, value) for name, value in scene.agreement().items()]
    table = pd.DataFrame(rows, columns=["matcher", "is_own", "agreement"])
    scene.show(
        figure_card.built(figures.matcher_bars, table), key="agreement", title="Agreement with the truth",
        note="same lists; 0: chance, 1: all right", table=table,
    )  # fmt: skip
    _subsample_caption(scene.now)


def margins(scene: Scene) -> None:
    """Draws the margin of each match and, where it is defined, its regret."""
    entries = scene.entries
    scene.show(
        figure_card.built(figures.margins, entries), key="margins", title="How sure is each match?",
        note="hollow, below the dotted line: the second group is nearly as close", table=entries,
    )  # fmt: skip
    if entries["regret"].notna().any():
        scene.show(
            figure_card.built(figures.margins, entries, regret=True), key="regrets",
            title="What would another group cost?", note="extra cost without this group, relative to its list's cost",
        )  # fmt: skip


def confusion(scene: Scene) -> None:
    """Draws the table of groups against true modes."""
    names = scene.now.mode_names or tuple(f"mode {mode + 1}" for mode in range(max(scene.now.entries.mode, default=-1) + 1))
    picture = figure_card.built(figures.confusion, scene.entries, scene.now.prototypes.name, names)
    table: pd.DataFrame = scene.entries.groupby(["mode", "name"], as_index=False).size()
    note = "entries; only the simulator knows the truth"
    scene.show(picture, key="confusion", title="Matched and true", note=note, table=table)


def by_noise(scene: Scene, chosen: float | None) -> None:
    """Draws agreement against noise, with the noise that the budget requires."""
    swept = scene.sweep()
    if not swept.agreement_at:
        _not_yet("Agreement against noise")
        return
    table = frames.agreement([swept])
    scene.show(
        figure_card.built(figures.agreement_by_noise, table, swept.demanded, chosen=chosen), key="by-noise",
        title="Agreement against noise", note="dashed: noise that ε requires, by who is trusted", table=table,
    )  # fmt: skip
    st.caption(WORDS["anchor_pictures"]["by_noise"])
    _subsample_caption(swept)


def anchors(scene: Scene) -> None:
    """Draws how well more anchors separate the modes."""
    scored = scene.anchors()
    if scored.anchors is None:
        _not_yet("What more anchors buy")
        return
    table = frames.anchors([scored])
    scene.show(
        figure_card.built(curves.diagnostics, table, chosen=scene.m), key="anchor-scores", title="What more anchors buy",
        note="gaps in standard deviations of a signature", table=table,
    )  # fmt: skip
    st.caption(WORDS["anchor_pictures"]["anchors"])
    _subsample_caption(scored)


def signal(scene: Scene) -> None:
    """Draws the length of the signal against the length of the noise, for each released statistic."""
    table = frames.statistics([scene.now])
    scene.show(
        figure_card.built(curves.signal_and_noise, table), key="signal", title="Signal against noise",
        note="lengths, logarithmic", table=table,
    )  # fmt: skip


def _not_yet(title: str) -> None:
    with layout.card("anchor-not-yet", f"**{title}**"):
        st.caption(WORDS["anchor_pictures"]["not_yet"])


def _subsample_caption(event: Signatures) -> None:
    """Says which entries of long lists were used to compare the matchers."""
    n_entries = len(event.entries.client)
    if event.n_compared is None or event.n_compared == n_entries:
        return
    st.caption(
        f"The lists are long, so {event.n_compared:,} of {n_entries:,} entries were compared: from the first clients of "
        f"every task, at most {matching_log.SUBSAMPLE_SIZE} of a list, taking one of each kind before a second of any."
    )


# What-if figures of a run: its recorded lists re-matched with fewer anchors or added noise, and labelled as such.


Settings = tuple[int, float]  # of re-matching: the first so many of the run's anchors, noise of this std on every coordinate


def choose_what_if(result: Result, model: Cell, view: state.View) -> Settings | None:
    """Sliders for anchors and noise; None, with a caption that says why, if the run did not record its lists in full."""
    events = anchor_source.matchings(result)
    n_anchors = {event.cell.seed: len(event.public.anchors.steps) for event in events if event.public is not None}
    if model.seed not in n_anchors:
        seeds = ", ".join(map(str, n_anchors))
        st.caption(
            f"Anchors and noise can be changed for seed {seeds} only: this run recorded no other lists in full."
            if n_anchors
            else "This run did not record its lists in full, so anchors and noise cannot be changed."
        )
        return None
    most = n_anchors[model.seed]
    counts = [*(m for m in COUNTS if m < most), most]
    about, key = f"Matches with the first m of the run's {most} anchors.", f"few-{len(counts)}"
    m = int(anchor_source.slide(view, "few", "Anchors m", counts, about, usual=most, key=key))
    about, key = "Added to every coordinate of every entry. 0: the run's own picture.", f"added-{len(LEVELS)}"
    noise = float(anchor_source.slide(view, "added", "Noise on the lists", LEVELS, about, usual=0.0, key=key))
    view.values |= {"few": m if m != most else None, "added": noise or None}
    return m, noise


def what_if(
    result: Result, rounds: tuple[Signatures, ...], at: int, settings: Settings | None, *, is_live: bool
) -> Scene:
    """The run's own scene with unchanged settings; else its lists re-matched, which a notice says above the figures."""
    recorded = anchor_source.scene(result, rounds, at, is_live=is_live)
    shown = recorded.now
    if settings is None or (source := _rematch(_key(result, shown), result, shown)) is None:
        return recorded
    compute, (m, noise) = partial(_computed, _key(result, shown), _source=source), settings

    def swept(event: Signatures) -> Signatures:
        return replace(event, noise_levels=LEVELS, agreement_at=compute("sweep", (m,)))

    def scored(event: Signatures) -> Signatures:
        return replace(event, anchors=compute("scores", (noise,)))

    if m == source.n_anchors and not noise:  # measured here until the run, at its end, has recorded its own
        return replace(
            recorded, m=m,
            sweep=lambda: recorded.sweep() if recorded.sweep().agreement_at else swept(shown),
            anchors=lambda: recorded.anchors() if recorded.anchors().anchors is not None else scored(shown),
        )  # fmt: skip
    added = f"noise {noise:g} on every list" if noise else "no noise on the lists"
    described = f"m = {m} of its {source.n_anchors} anchors and {added}"
    n = len(source.lists)
    whose = f"clients of every task, {n} in all" if source.has_homes else f"{n} clients"
    part = f" Shown: the first {whose}, whose lists were recorded." if source.is_part else ""
    st.info(WORDS["matching_clients"]["what_if"].format(described=described, part=part))
    now: Signatures = compute("event", (m, noise))
    return Scene(
        (now,), 0, recorded.key, replace(result.provenance, method=f"{result.provenance.method}, {described}, re-matched"),
        agreement=lambda: compute("agreement", (m, noise)), sweep=lambda: swept(now), anchors=lambda: scored(now),
        is_live=is_live, m=m,
    )  # fmt: skip


Key = tuple[str, Cell, int, int]


def _key(result: Result, now: Signatures) -> Key:
    return str(result.run_id), now.cell, now.task, now.round


# A recorded round never changes, so what is computed from it is cached under its key.
@st.cache_resource(max_entries=20, show_spinner=False)
def _rematch(key: Key, _result: Result, _now: Signatures) -> Rematch | None:
    return Rematch.of(anchor_source.matchings(_result), _now, _result.spec.params)


@st.cache_resource(max_entries=500, show_spinner=False)
def _computed(key: Key, what: str, of: tuple[float, ...], _source: Rematch) -> Any:
    """What the method of `Rematch` with this name gives for these settings."""
    return getattr(_source, what)(*of)


# The simulation's lists to play with: noise and anchors move them, six can be matched by hand; drawn in the browser.
#
# The element in `assets/anchors/` gets all it needs once; it reports noise, anchors and matcher only when they are let go.


def play_lists(setup: Setup, *, key: str) -> Setup:
    """Draws the card; returns the settings with which it was left."""
    with layout.card("anchor-play"):
        data = figure_card.written_once(anchors_document, setup.length, setup.m, setup.noise, setup.matcher)
        reported = figure_card.mounted(ANCHORS)(key=key, data=data, on_settings_change=lambda: None).get("settings")
        now = reported_setup(reported, setup)
        with st.container(key="strip-anchor-play", horizontal=True, vertical_alignment="center", gap="small"):
            about = "The groups of every matcher at this noise and number of anchors"
            layout.download("CSV", lambda: csv(now), "anchors.csv", about, type="tertiary")
            link.offer(plain(now.provenance().line()))
    return now


def csv(setup: Setup) -> str:
    """One row for each entry: client, true digit, and its group by every matcher."""
    lists = matching.read_vectors(setup.length)
    at, level = lists["counts"].index(setup.m), lists["noises"].index(setup.noise)
    truth = list(map(int, lists["modes"]))
    table = pd.DataFrame({"client": [entry // lists["n_modes"] for entry in range(len(truth))], "digit": truth})
    for name, by in lists["groups"].items():
        table[name] = list(map(int, by[at][level]))
    return str(table.to_csv(index=False))


def reported_setup(reported: object, setup: Setup) -> Setup:
    """The settings that the browser reports; the given ones for what it cannot have reported."""
    if not isinstance(reported, Mapping):
        return setup
    keys = {name: key for key, name in MATCHERS.items()}
    matcher, m, noise = keys.get(str(reported.get("matcher"))), reported.get("m"), reported.get("noise")
    lists = matching.read_vectors(setup.length)
    if matcher is None or m not in lists["counts"] or noise not in lists["noises"]:
        return setup
    return replace(setup, matcher=matcher, m=int(str(m)), noise=float(str(noise)))


# The view: a simulation or a run, with the controls of each and all figures.


SIMULATION, RUN = "play", "run"
SHOWS = {SIMULATION: "A simulation", RUN: "A run"}
CODEC = link.Codec(
    link.Field("show", "sh", "lists", link.Choice(tuple(SHOWS)), SIMULATION),
    *anchor_source.FIELDS,
    *anchor_source.RUN_FIELDS,
    *FIELDS,
)


def page() -> None:
    """The view."""
    view = state.View("anchors", CODEC)
    question = "Can 20 phones line up what they learned without labels?"
    place = layout.heading("Explore", question, notices=[*view.read.notices, *fields.linked_run(view)[1]])
    controls, answer = layout.controls_and_answer()
    with controls:
        show = fields.segmented(view, "show", "Lists of", SHOWS, start=RUN if view["run"] is not None else None)
    view.values |= {field.name: None for field in anchor_source.RUN_FIELDS}
    (_simulation if show == SIMULATION else _run)(view, controls, answer)
    view.commit()
    layout.actions(place, is_shared=True, help_text=WORDS["matching_clients"]["help"], view=view)


def _simulation(view: state.View, controls: DeltaGenerator, answer: DeltaGenerator) -> None:
    """Draws the simulation: its settings and figures."""
    with controls:
        setup = anchor_source.choose(view)
        rest = st.container()
    with answer:
        if setup.is_played:
            setup = play_lists(setup, key=view.key("explorer"))
        rounds, at = anchor_source.rounds(setup)
        scene = anchor_source.Scene(
            rounds, at, f"play-{setup.length}-{setup.kind}", setup.provenance(),
            agreement=lambda: anchor_source.agreement(setup),
            sweep=lambda: anchor_source.swept(setup, rounds[at]), anchors=lambda: anchor_source.scored(setup, rounds[at]),
        )  # fmt: skip
        noise = setup.noise if setup.is_local else None
        if not setup.is_played:
            maps(view, scene)
        _more(scene, noise)
    with rest:
        seen = "released groups" if setup.side == "client" else "noisy lists"
        st.caption(f"Public digits, dealt to simulated clients: nothing is private. A server would see the {seen} alone.")
    view.values |= asdict(setup)


def _run(view: state.View, controls: DeltaGenerator, answer: DeltaGenerator) -> None:
    """Draws a run, live or finished: its figures, and the what-if with other anchors or noise."""
    with controls:
        if not (runs := fields.runs(state.where(), st.session_state.get(view.key("run"), view["run"]), "clients")):
            with answer, layout.card("anchor-map", "**No lists to show yet**"):
                st.info(WORDS["anchor_pictures"]["no_run"])
                layout.arrow("train", "To the Train page")
            return
        run_id = fields.select(view, "run", "Run", runs)
        result = state.run_result(state.store().get(run_id))
        model = anchor_source.model(result, view)
    rounds = anchor_source.rounds_of(result, model)
    with answer:
        if not state.store().get(run_id).is_over:
            layout.draw_apart(partial(_watch, view, run_id, model), view.settle, every=2.0)
            return
        run_panel.statement(result, model.epsilon if model is not None else None, is_over=True)
        if model is None or not rounds:
            with layout.card("anchor-map", "**No lists to show**"):
                st.info(anchor_source.empty_reason(result))
            return
        layout.draw_apart(partial(_run_figures, view, result, model, rounds), view.settle)


def _run_figures(
    view: state.View, result: Result, model: Cell, rounds: tuple[Signatures, ...], *, is_live: bool = False
) -> None:  # fmt: skip
    """Draws the sliders and all figures of one round of one model."""
    with st.container(key="run-sliders", horizontal=True, vertical_alignment="bottom", gap="medium"):
        at = anchor_source.at_round(result, rounds, view)
        settings = choose_what_if(result, model, view)
    scene = what_if(result, rounds, at, settings, is_live=is_live)
    maps(view, scene)
    nearest(result, rounds[at])
    _more(scene, settings[1] or None if settings is not None else None)
    layout.arrow("train", "Its accuracy and statement", {"v": "1", "run": str(result.run_id)})


def _watch(view: state.View, run_id: str, model: Cell | None) -> None:
    """Draws the newest round of a live run; when the run has ended, draws the page again, which has no timer then."""
    run = state.store().get(run_id)
    result = state.run_result(run)
    rounds = anchor_source.rounds_of(result, model)
    if run.is_over or (model is None and anchor_source.matchings(result)):  # only the page can draw these controls
        st.rerun()
    run_panel.status_card(run, result)
    run_panel.statement(result, model.epsilon if model is not None else None, is_over=False)
    if model is None or not rounds:
        with layout.card("anchor-map"):
            st.caption("The first lists appear here once the clients have made them.")
    else:
        _run_figures(view, result, model, rounds, is_live=True)


def _more(scene: Scene, noise: float | None) -> None:
    """Draws the other figures, in tabs, when opened."""
    layout.views({
        "Margins": lambda: margins(scene),
        "Matched and true": lambda: confusion(scene),
        "Noise": lambda: by_noise(scene, noise),
        "Anchors": lambda: anchors(scene),
        "Signal": lambda: signal(scene),
    }, "anchor-views")  # fmt: skip
