"""Anchors: how do clients agree on what is what, when nobody may name it? Lists matched by anchors, and by other means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpcl_core.errors import BadInput
from dpcl_core.events import Signatures
from dpcl_core.results import Result
from dpcl_core.spec import Cell
from pages.parts.anchors import cost, ofrun, pictures, play, whatif
from pages.parts.anchors.pictures import Scene
from pages.parts.claims import privacy_bar
from pages.parts.shell import layout, link, state, stored_results
from pages.parts.shell.header import actions, heading
from pages.parts.shell.view import View
from pages.parts.training import run_panel

PLAY, RUN = "play", "run"
SHOWS = {PLAY: "A simulation", RUN: "A run"}
CODEC = link.Codec(
    [
        link.Field("show", "sh", "lists", link.Choice(tuple(SHOWS)), PLAY),
        *play.FIELDS, *ofrun.FIELDS, *whatif.FIELDS, *pictures.FIELDS,
    ]
)  # fmt: skip
HELP = """Every client describes its texts by a **list** of a few Gaussians, in no order. Before lists can be averaged,
somebody must say which entry of one list is the same thing as which entry of another. CSLR reads each entry's density at
public sentences, the **anchors**, and compares these **signatures**. Hold it against a **plain projection** on public axes:
if both do equally well, it is the few public directions that help, not the anchors. Entries, clients and true groups are
the simulator's view; a server sees what is released, and nothing else."""


@state.guarded
def page() -> None:
    """The page."""
    view = View("anchors", lambda _: CODEC)
    question = "How do clients agree on what is what, when nobody may name it?"
    place = heading("Anchors", question, notices=[*view.read.notices, *_trouble(view)])
    controls, answer = layout.controls_and_answer()
    with controls:
        options = list(SHOWS)
        asked = RUN if view["run"] is not None else str(view["show"])
        show = (
            st.segmented_control(
                "Lists of", options, default=asked, format_func=SHOWS.__getitem__, required=True, key=view.key("show")
            ) or asked
        )  # fmt: skip
    kept = {field.name: view[field.name] for field in (*play.FIELDS, *pictures.FIELDS)}
    values: dict[str, object] = {**kept, **{field.name: None for field in (*ofrun.FIELDS, *whatif.FIELDS)}, "show": show}
    values |= _play(view, controls, answer) if show == PLAY else _run(view, controls, answer)
    actions(place, share=view.commit(values, CODEC), help_text=HELP, view=view)


def _trouble(view: View) -> list[str]:
    """What to say about a run that a link names and that is not there."""
    if view["run"] is None:
        return []
    try:
        state.store().get(str(view["run"]))
    except BadInput as refused:
        return [f"{refused}."]
    return []


def _play(view: View, controls: DeltaGenerator, answer: DeltaGenerator) -> Mapping[str, object]:
    """The simulation: its settings, and every picture of it."""
    with controls:
        chosen, values = play.choose(view)
        rest = st.container()
    with answer:
        of_play = "released groups" if chosen.side == "client" else "noisy lists"
        privacy_bar.facts(
            ("Nothing to protect", "public digits, dealt to simulated clients; noise from an ordinary generator"),
            ("Visible to the server", of_play),
            ("Not visible to the server", "single entries below, and what they really are of"),
        )
        told, at = play.told(chosen)
        own = f"play-{chosen.length}-{chosen.kind}"
        scene = Scene(
            told, at, own, chosen.provenance(),
            agreement=lambda: play.agreement(chosen),
            sweep=lambda: play.measured(chosen, told[at], sweep=True),
            anchors=lambda: play.measured(chosen, told[at], anchors=True),
        )  # fmt: skip
        noise = chosen.noise if chosen.is_local else None
        share = st.query_params.to_dict()
        seen = _pictures(view, scene, noise, lambda: cost.of_play(chosen), _no_accuracy, share)
    with rest:
        st.caption("Digits stand in for texts: what an entry is of can be seen. A run shows the same of real texts.")
    return {**values, **seen, "show": PLAY}


def _run(view: View, controls: DeltaGenerator, answer: DeltaGenerator) -> Mapping[str, object]:
    """A run, while it goes on and afterwards: every picture of it, and what other anchors or noise would make of it."""
    with controls:
        result = ofrun.choose(view)
        if result is None or result.run_id is None:
            with answer, layout.card("anchor-map"):
                st.markdown("**No lists to show yet**")
                st.info(ofrun.NO_RUN)
                st.page_link("pages/train.py", label=":primary[To the Train page →]")
            return {"show": RUN, "run": None}
        model, values = ofrun.model(result, view)
        is_over = state.store().get(result.run_id).is_over
        told = ofrun.of_model(result, model)
        at, where = ofrun.at_round(result, told, view) if is_over and told else (len(told) - 1, {"at": None})
        asked, moved = whatif.choose(result, model, view)
    values = {**values, **where, **moved, "run": result.run_id, "show": RUN}
    with answer:
        if not is_over:
            _watch(view, result.run_id, model, asked)
            return values
        run_panel.bar(result, model.epsilon if model is not None else None, is_over=True)
        if model is None or not told:
            with layout.card("anchor-map"):
                st.markdown("**No lists to show**")
                st.info(ofrun.nothing(result))
            return values
        seen = _of_run(view, result, told, at, asked)
    return {**values, **seen}


def _of_run(
    view: View, result: Result, told: tuple[Signatures, ...], at: int, asked: whatif.Asked | None, *, is_live: bool = False
) -> Mapping[str, object]:
    """Every picture of one round of one model."""
    now, share = told[at], None if is_live else st.query_params.to_dict()
    given = result.guarantees.get(now.cell.epsilon)
    whatif.notice(result, now, asked)
    return _pictures(
        view, whatif.scene(result, told, at, asked, is_live=is_live), asked.noise or None if asked is not None else None,
        lambda: cost.of_run(given, is_over=not is_live),
        lambda: ofrun.accuracy(result, now.cell.epsilon, share, live=is_live),
        share,
    )  # fmt: skip


@st.fragment(run_every=2.0)
@state.guarded
def _watch(view: View, run_id: str, model: Cell | None, asked: whatif.Asked | None) -> None:
    """The newest round while the run goes on, or an earlier one until there is a newer; the last look starts the page anew,
    without a timer."""
    run = state.store().get(run_id)
    result = stored_results.of(run)
    told = ofrun.of_model(result, model)
    if run.is_over or (model is None and ofrun.has_any(result)):  # a model to choose, or sliders that move
        st.rerun()
    run_panel.status_card(run, result)
    run_panel.bar(result, model.epsilon if model is not None else None, is_over=False)
    if not told:
        with layout.card("anchor-map"):
            st.caption("The first lists appear here as soon as the clients have made them.")
        return
    at, _ = ofrun.at_round(result, told, view)
    _of_run(view, result, told, at, asked, is_live=True)


def _pictures(
    view: View,
    scene: Scene,
    noise: float | None,
    costs: Callable[[], None],
    accuracy: Callable[[], None],
    share: Mapping[str, str] | None,
) -> Mapping[str, object]:
    """The map and the matchers; the other pictures in tabs that draw when they are opened. Gives what is looked at."""
    left, right = st.columns([1.6, 1], gap="small")
    with left:
        seen = pictures.maps(view, scene, share)
    with right:
        pictures.bars(scene, share)
    draw = {
        "How sure": lambda: pictures.margins(scene, share),
        "Found and true": lambda: pictures.confusion(scene, share),
        "Noise": lambda: pictures.by_noise(scene, noise, share),
        "Anchors": lambda: pictures.anchors(scene, share),
        "Signal": lambda: pictures.signal(scene, share),
        "Cost": costs,
        "Accuracy": accuracy,
    }
    for tab, drawn in zip(st.tabs(list(draw), key="anchor-tabs", on_change="rerun"), draw.values(), strict=True):
        if tab.open:
            with tab:
                drawn()
    return seen


def _no_accuracy() -> None:
    with layout.card("anchor-accuracy"):
        st.caption("No model is trained here. A run of a CSLR method shows its accuracy matrix, AA, BWT and FWT.")
        st.page_link("pages/train.py", label=":primary[Train one →]")


if __name__ == "__main__":
    page()
