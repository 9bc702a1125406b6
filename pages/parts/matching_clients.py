"""Matching clients on Explore: client lists matched by anchors and by other methods, in a simulation or in a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpcl_core.events import Signatures
from dpcl_core.results import Result
from dpcl_core.spec import Cell
from pages.parts import anchor_pictures, anchor_source, fields, layout, link, run_panel, state
from pages.parts.text import WORDS

SIMULATION, RUN = "play", "run"
SHOWS = {SIMULATION: "A simulation", RUN: "A run"}
CODEC = link.Codec(
    [
        link.Field("show", "sh", "lists", link.Choice(tuple(SHOWS)), SIMULATION),
        *anchor_source.FIELDS, *anchor_source.RUN_FIELDS, *anchor_pictures.WHAT_IF_FIELDS, *anchor_pictures.FIELDS,
    ]
)  # fmt: skip


def page() -> None:
    """The view."""
    view = state.View("anchors", lambda _: CODEC)
    question = "Can 20 phones line up what they learned without labels?"
    place = layout.heading("Explore", question, notices=[*view.read.notices, *fields.linked_run(view)[1]])
    controls, answer = layout.controls_and_answer()
    with controls:
        show = fields.segmented(view, "show", "Lists of", SHOWS, start=RUN if view["run"] is not None else None)
    values: dict[str, object] = {field.name: view[field.name] for field in (*anchor_source.FIELDS, *anchor_pictures.FIELDS)}
    values |= {field.name: None for field in (*anchor_source.RUN_FIELDS, *anchor_pictures.WHAT_IF_FIELDS)} | {"show": show}

    def settle(changed: Mapping[str, object]) -> None:
        view.settle({**values, **changed}, CODEC)

    values |= _simulation(view, controls, answer) if show == SIMULATION else _run(view, controls, answer, settle)
    view.commit(values, CODEC)
    layout.actions(place, is_shared=True, help_text=WORDS["matching_clients"]["help"], view=view)


def _simulation(view: state.View, controls: DeltaGenerator, answer: DeltaGenerator) -> Mapping[str, object]:
    """Draws the simulation: its settings and figures; returns the link values."""
    with controls:
        setup, values = anchor_source.choose(view)
        rest = st.container()
    with answer:
        if setup.is_played:
            setup = anchor_pictures.play_lists(setup, key=view.key("explorer"))
            values = {**values, "m": setup.m, "noise": setup.noise, "matcher": setup.matcher}
        rounds, at = anchor_source.rounds(setup)
        scene = anchor_source.Scene(
            rounds, at, f"play-{setup.length}-{setup.kind}", setup.provenance(),
            agreement=lambda: anchor_source.agreement(setup),
            sweep=lambda: anchor_source.measured(setup, rounds[at], sweep=True),
            anchors=lambda: anchor_source.measured(setup, rounds[at], anchors=True),
        )  # fmt: skip
        noise = setup.noise if setup.is_local else None
        chosen = {} if setup.is_played else _maps(view, scene)
        _more(scene, noise)
    with rest:
        seen = "released groups" if setup.side == "client" else "noisy lists"
        st.caption(f"Public digits, dealt to simulated clients: nothing is private. A server would see the {seen} alone.")
    return {**values, **chosen}


def _run(
    view: state.View, controls: DeltaGenerator, answer: DeltaGenerator, settle: Callable[[Mapping[str, object]], None]
) -> Mapping[str, object]:  # fmt: skip
    """Draws a run, live or finished: its figures, and the what-if with other anchors or noise; returns the link values.

    `settle` takes those that its sliders have changed by themselves.
    """
    with controls:
        result = anchor_source.choose_run(view)
        if result is None or result.run_id is None:
            with answer, layout.card("anchor-map"):
                st.markdown("**No lists to show yet**")
                st.info(anchor_source.NO_RUN)
                layout.arrow("train", "To the Train page")
            return {}
        model, values = anchor_source.model(result, view)
    values = {**values, "run": result.run_id}
    rounds = anchor_source.rounds_of(result, model)
    with answer:
        if not state.store().get(result.run_id).is_over:
            watch = partial(_watch, view, result.run_id, model)
            layout.draw_apart(lambda: values.update(watch()), lambda: settle(values), every=2.0)
            return values
        run_panel.bar(result, model.epsilon if model is not None else None, is_over=True)
        if model is None or not rounds:
            with layout.card("anchor-map"):
                st.markdown("**No lists to show**")
                st.info(anchor_source.empty_reason(result))
            return values
        draw = partial(_run_figures, view, result, model, rounds)
        layout.draw_apart(lambda: values.update(draw()), lambda: settle(values))
        return values


def _run_figures(
    view: state.View, result: Result, model: Cell, rounds: tuple[Signatures, ...], *, is_live: bool = False
) -> Mapping[str, object]:  # fmt: skip
    """Draws the sliders and all figures of one round of one model; returns what the link carries of the choice."""
    with st.container(key="run-sliders", horizontal=True, vertical_alignment="bottom", gap="medium"):
        at, round_value = anchor_source.at_round(result, rounds, view)
        settings, what_if = anchor_pictures.choose_what_if(result, model, view)
    now = rounds[at]
    anchor_pictures.what_if_notice(result, now, settings)
    scene = anchor_pictures.what_if_scene(result, rounds, at, settings, is_live=is_live)
    chosen = _maps(view, scene)
    anchor_pictures.nearest(result, now)
    _more(scene, settings.noise or None if settings is not None else None)
    layout.arrow("train", "Its accuracy and statement", {"v": "1", "run": str(result.run_id)})
    return {**round_value, **what_if, **chosen}


def _watch(view: state.View, run_id: str, model: Cell | None) -> Mapping[str, object]:
    """Draws the newest round of a live run; when the run has ended, draws the page again, which has no timer then.

    Returns what the link carries of the choice.
    """
    run = state.store().get(run_id)
    result = state.run_result(run)
    rounds = anchor_source.rounds_of(result, model)
    if run.is_over or (model is None and anchor_source.has_any(result)):  # only the page can draw these controls
        st.rerun()
    run_panel.status_card(run, result)
    run_panel.bar(result, model.epsilon if model is not None else None, is_over=False)
    if model is None or not rounds:
        with layout.card("anchor-map"):
            st.caption("The first lists appear here once the clients have made them.")
        return {}
    return _run_figures(view, result, model, rounds, is_live=True)


def _maps(view: state.View, scene: anchor_source.Scene) -> Mapping[str, object]:
    """Draws the map and the matchers; returns the chosen map."""
    left, right = st.columns([1.6, 1], gap="small")
    with left:
        chosen = anchor_pictures.maps(view, scene)
    with right:
        anchor_pictures.bars(scene)
    return chosen


def _more(scene: anchor_source.Scene, noise: float | None) -> None:
    """Draws the other figures, in tabs, when opened."""
    draw = {
        "Margins": lambda: anchor_pictures.margins(scene),
        "Matched and true": lambda: anchor_pictures.confusion(scene),
        "Noise": lambda: anchor_pictures.by_noise(scene, noise),
        "Anchors": lambda: anchor_pictures.anchors(scene),
        "Signal": lambda: anchor_pictures.signal(scene),
    }
    layout.views(draw, "anchor-views")
