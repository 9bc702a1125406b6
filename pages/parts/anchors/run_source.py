"""The recorded list matchings of a run: a choice of run, model and round, and the accuracy of the chosen model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import streamlit as st

from dpcl_core.data import catalog as datasets
from dpcl_core.data import showing
from dpcl_core.events import Signatures
from dpcl_core.figures.picture import epsilon_label
from dpcl_core.results import Result
from dpcl_core.spec import Cell
from pages.parts.anchors.pictures import Scene
from pages.parts.shell import figure_card, link, pickers, pictures, state, stored_results, style
from pages.parts.shell.view import View

FIELDS: list[link.Field[Any]] = [
    link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
    link.Field("epsilon", "e", "ε", link.Maybe(link.BUDGET), None),
    link.Field("seed", "s", "seed", link.Maybe(link.Whole(0, 2**31)), None),
    link.Field("at", "t", "round", link.Maybe(link.Whole(1, 100_000)), None),
]
NO_RUN = "No run has recorded client lists yet: train a CSLR method on the Train page. The simulation needs no run."


def has_any(result: Result) -> bool:
    """Whether the run has recorded its clients' lists."""
    return any(isinstance(event, Signatures) for event in result.events)


def choose(view: View) -> Result | None:
    """The chosen run; None where the store has no run on clients' data."""
    linked = cast("str | None", st.session_state.get(view.key("run"), view["run"]))
    runs = pickers.runs(state.where(), linked, "clients")
    if not runs:
        return None
    run_id = st.selectbox(
        "Run", list(runs), list(runs).index(str(view["run"])) if view["run"] in runs else 0, format_func=runs.__getitem__,
        key=view.key("run"),
    )  # fmt: skip
    return stored_results.of(state.store().get(run_id))


def matched(result: Result, epsilon: float, *, live: bool) -> None:
    """Draws the lists of one budget on their map: of the newest round, once the run is over of any."""
    rounds = [event for event in matchings(result) if event.cell.epsilon == epsilon]
    if not rounds:
        return
    if live:
        _map(result, rounds[-1:], 0, live=True)
    else:
        _of_rounds(result, rounds_of(result, rounds[-1].cell))


@st.fragment
def _of_rounds(result: Result, rounds: Sequence[Signatures]) -> None:
    """Draws a slider over the rounds of one model and the map of the chosen one, alone when it moves."""
    at = len(rounds) - 1
    if at:
        names = [_round_name(event, result) for event in rounds]
        key = f"lists-round-{result.run_id}-{rounds[at].cell.epsilon:g}"
        at = st.select_slider("Lists of", range(len(rounds)), at, format_func=names.__getitem__, key=key)
    _map(result, rounds, at, live=False)


def _map(result: Result, rounds: Sequence[Signatures], at: int, *, live: bool) -> None:
    """Draws one round's lists on the map that holds all rounds, with a link to the page Matching clients."""
    from dpcl_core.figures import signatures
    from dpcl_core.runs import matching

    event = rounds[at]
    entries, prototypes = matching.entries([event]), matching.prototypes([event])
    within = signatures.extent(matching.entries(rounds), matching.prototypes(rounds), "signature")
    draw = pictures.kept(signatures.on_map)
    picture = draw(entries, prototypes, space="signature", within=within, dark=style.is_dark())
    figure_card.show(
        picture, result.provenance, key="lists", title="Which list entry is which?",
        note=f"{_round_name(event, result)}; the simulator's view, not visible to the server", table=entries, live=live,
        moved=True,
    )  # fmt: skip
    if result.run_id is not None:
        query = {"v": "1", "sh": "run", "run": result.run_id}
        st.page_link("pages/anchors.py", label=":primary[All figures on Matching clients →]", query_params=query)


def model(result: Result, view: View) -> tuple[Cell | None, Mapping[str, object]]:
    """The chosen model of the run and what the link carries of the choice; None while no list is recorded."""
    cells = {event.cell for event in matchings(result)}
    if not cells:
        return None, {}
    budgets = sorted({cell.epsilon for cell in cells})
    labels = {each: epsilon_label(each, result.standing) for each in budgets}
    epsilon = pickers.one_of("Requested ε", budgets, view, "epsilon", labels.__getitem__)
    seeds = sorted({cell.seed for cell in cells if cell.epsilon == epsilon})
    seed = pickers.one_of("Seed", seeds, view, "seed", str)
    chosen = {"epsilon": epsilon if len(budgets) > 1 else None, "seed": seed if len(seeds) > 1 else None}
    return Cell(epsilon, seed), chosen


def matchings(result: Result) -> tuple[Signatures, ...]:
    """All recorded matchings of the run's lists, in order."""
    return tuple(event for event in result.events if isinstance(event, Signatures))


def rounds_of(result: Result, cell: Cell | None) -> tuple[Signatures, ...]:
    """All recorded rounds of one model."""
    return tuple(event for event in matchings(result) if event.cell == cell)


def at_round(result: Result, rounds: tuple[Signatures, ...], view: View) -> tuple[int, Mapping[str, object]]:
    """Index of the chosen round (at first the last one), and what the link carries of the choice."""
    last = len(rounds) - 1
    if not last:
        return 0, {"at": None}
    linked = cast("int | None", view["at"])
    start = linked - 1 if linked is not None and linked <= len(rounds) else last
    names = [_round_name(event, result) for event in rounds]
    at = st.select_slider(
        "Round", range(len(rounds)), start, format_func=names.__getitem__, key=view.key(f"at-{len(rounds)}")
    )
    return at, {"at": None if at == last else at + 1}


def empty_reason(result: Result) -> str:
    """Why a run that has ended has no lists to show."""
    if showing.refusal(datasets.card(result.spec.data.dataset)) or result.spec.data.dataset.startswith("own:"):
        return "This run recorded no lists: its texts may be private data, whose lists are never shown."
    return "This run recorded no lists: its method makes none, or the run ended too early."


def scene(result: Result, rounds: tuple[Signatures, ...], at: int, *, is_live: bool) -> Scene:
    """The scene of a run, as measured during it; sweep and anchor scores come from the latest round that has them."""
    shown, before = rounds[at], rounds[at::-1]
    swept = next((event for event in before if event.agreement_at), shown)
    scored = next((event for event in before if event.anchors is not None), shown)
    return Scene(
        rounds, at, str(result.run_id), result.provenance, lambda: shown.agreement, lambda: swept, lambda: scored, is_live
    )


def accuracy(result: Result, epsilon: float, *, live: bool = False) -> None:
    """Accuracy matrix, and AA, BWT and FWT seed by seed, with the published values of this method where there are some."""
    from dpcl_core.figures import grids, scores
    from dpcl_core.papers import cslr
    from dpcl_core.runs import frames

    dark, score, standing = style.is_dark(), result.score, result.standing
    table = frames.metrics(result.events)
    left, right = st.columns(2, gap="small")
    with left:
        figure_card.show(
            grids.accuracy_matrix(
                result.accuracy, epsilon=epsilon, n_tasks=result.n_tasks, score=score, standing=standing, dark=dark
            ),
            result.provenance, key="anchor-matrix", title="Who remembers what", note=f"rows: after a task; {score} in %",
            table=result.scores, linked=True, live=live,
        )  # fmt: skip
    with right:
        printed = cslr.printed_scores(result.spec, epsilon)
        note = "dot: a seed" + ("; grey: published, ε claimed for the replay" if printed else "")
        figure_card.show(
            scores.by_seed(
                table, epsilon=epsilon, n_tasks=result.n_tasks, published=printed, score=score, standing=standing, dark=dark
            ), result.provenance,
            key="anchor-scores-of-run", title="AA, BWT, FWT", note=note,
            table=table, linked=True, live=live,
        )  # fmt: skip


def _round_name(event: Signatures, result: Result) -> str:
    names = result.started.task_names if result.started is not None else ()
    task = f"task {event.task + 1}" + (f", {names[event.task]}" if event.task < len(names) else "")
    return f"{task}, round {event.round + 1}"
