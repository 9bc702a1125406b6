"""The simulation on the page Matching clients: lists of simulated clients with public digits, matched for every setting."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

import pandas as pd
import streamlit as st

from dpcl_core.data import catalog as datasets
from dpcl_core.data import files
from dpcl_core.elements.element import MATCHERS, Start
from dpcl_core.events import AnchorScores, Signatures, of_kind
from dpcl_core.explorers import matching, projection_maps
from dpcl_core.explorers.matching import COUNTS, LEVELS
from dpcl_core.figures import matching as figures
from dpcl_core.figures.picture import Picture, Provenance, epsilon_label, epsilon_text
from dpcl_core.lessons import modes
from dpcl_core.results import Result
from dpcl_core.runs import frames
from dpcl_core.spec import Cell
from pages.parts import fields, figure_card, layout, link, state

Side = Literal["server", "client"]
KINDS = {"exact": "each mode once", "fitted": "fitted by EM"}
SIDES = {"server": "the server, on noisy lists", "client": "each client, to released groups"}
BUDGETS = (1.0, 4.0, 8.0, math.inf)
CLIENTS = (20, 50, 200)
LENGTHS = (32, 384)
ROUNDS = (0, 1, 2, 3, 4)
DRAWS = (1, 2, 3, 4, 5)
FIELDS: list[link.Field[Any]] = [
    link.Field("kind", "k", "lists", link.Choice(tuple(KINDS)), "exact"),
    link.Field("side", "w", "who matches", link.Choice(tuple(SIDES)), "server"),
    link.Field("matcher", "x", "matcher", link.Choice(tuple(MATCHERS)), Start().matcher),
    link.Field("m", "m", "anchors m", link.Whole(COUNTS[0], COUNTS[-1]), Start().m),
    link.Field("noise", "n", "noise on the lists", link.Number(LEVELS[0], LEVELS[-1]), Start().noise),
    link.Field("budget", "b", "ε of all rounds", link.BUDGET, 4.0),
    link.Field("round", "o", "round", link.Whole(ROUNDS[0], ROUNDS[-1]), ROUNDS[-1]),
    link.Field("clients", "c", "clients", link.Whole(CLIENTS[0], CLIENTS[-1]), CLIENTS[0]),
    link.Field("length", "d", "numbers in a vector", link.Whole(LENGTHS[0], LENGTHS[-1]), Start().length),
    link.Field("draw", "y", "draw", link.Whole(DRAWS[0], DRAWS[-1]), 1),
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
        """The entries of the chosen round, as `runs.frames.entries` gives them; several figures use them."""
        return frames.entries([self.now])

    def show(self, picture: Picture, **card: Any) -> None:
        """Draws a figure of the scene in a card (`figure_card.show`)."""
        figure_card.show(picture, self.source, linked=True, live=self.is_live, **card)


@dataclass(frozen=True)
class Setup:
    """Settings of the simulation, by the names of `FIELDS`: everything that determines the groups."""

    kind: modes.Kind
    side: Side
    matcher: str
    m: int
    noise: float
    budget: float
    round: int
    clients: int
    length: int
    draw: int

    @property
    def is_local(self) -> bool:
        return self.side == "server"

    @property
    def is_played(self) -> bool:
        """Whether the browser has these lists, and draws and matches them."""
        return self.is_local and self.kind == "exact" and self.draw == matching.DRAW

    @property
    def n_clients(self) -> int:
        """How many there are; where the server matches, the number is not to be chosen."""
        return CLIENTS[0] if self.is_local else self.clients

    def provenance(self) -> Provenance:
        """The provenance line of the figures."""
        how = f"noise {self.noise:g} on each list" if self.is_local else f"{self.round} of 4 rounds released"
        method = f"{MATCHERS[self.matcher]}, m = {self.m}, {how}"
        dataset = f"public digits dealt to {self.n_clients} simulated clients, {self.length} numbers each"
        return Provenance(dataset, None, method, "", () if self.is_local else (self.budget,), is_example=True)


def slide(
    view: state.View, name: str, title: str, options: Sequence[float], help_text: str | None = None, *,
    usual: float | None = None, key: str = "",
) -> float:  # fmt: skip
    """A slider over these numbers, at first at the one nearest to the link's; `usual`: where the link has none."""
    return st.select_slider(
        title, options, _nearest(view, name, options, usual), format_func=epsilon_text, key=view.key(key or name),
        help=help_text,
    )  # fmt: skip


def _nearest(view: state.View, name: str, options: Sequence[float], usual: float | None = None) -> float:
    linked = cast(float, usual if view[name] is None else view[name])
    return min(options, key=lambda each: abs(each - linked))


def choose(view: state.View) -> Setup:
    """Draws the controls, except those that `explorer` has; returns the settings."""
    side = fields.select(view, "side", "Who matches", SIDES)
    dials = st.container()
    with st.expander("The lists"):
        kind = fields.select(view, "kind", "Entries of a list", KINDS)
        length = int(slide(view, "length", "Numbers in a vector", LENGTHS, "Beyond 32 every digit has zeros: pure noise."))
        draw = int(slide(view, "draw", "Draw", DRAWS, "Other digits for each client, and other anchors."))
    linked: dict[str, Any] = {field.name: view[field.name] for field in FIELDS}
    setup = Setup(**{**linked, "side": side, "kind": kind, "length": length, "draw": draw})
    if setup.is_played:
        lists = matching.read_vectors(length)
        return replace(setup, m=int(_nearest(view, "m", lists["counts"])), noise=_nearest(view, "noise", lists["noises"]))
    with dials:
        matcher = fields.select(view, "matcher", "Matcher", MATCHERS)
        m = slide(view, "m", "Anchors m", COUNTS, "Public digits at which the density of every entry is evaluated.")
        setup = replace(setup, matcher=matcher, m=int(m))
        if setup.is_local:
            about = "Its std on every coordinate; groups are about 0.4 apart."
            return replace(setup, noise=slide(view, "noise", "Noise on the lists", LEVELS, about))
        budget = slide(view, "budget", "ε of all four rounds", BUDGETS)
        number = int(slide(view, "round", "Round", ROUNDS, "0: groups of public digits only, before the first release."))
        return replace(setup, budget=budget, round=number, clients=int(slide(view, "clients", "Clients", CLIENTS)))


@st.cache_resource(max_entries=300, show_spinner=False)
def event(setup: Setup) -> Signatures:
    """The matching under these settings. `agreement` and `scored` are separate because they take longer."""
    world = _world(setup)
    if setup.is_local:
        matched = modes.server_side(world, MATCHERS[setup.matcher], setup.m, setup.noise, setup.draw)
        std, spread = setup.noise, {"local": modes.std_of_lists(world, 4.0), "central": modes.std_of_released(world, 4.0)}
    else:
        matched = modes.client_side(world, MATCHERS[setup.matcher], setup.m, setup.budget, setup.round, setup.draw)
        std = modes.std_of_released(world, setup.budget)
        spread = {"local": modes.std_of_lists(world, setup.budget), "central": std}
    signal, noise = modes.lengths(world, std)
    cell = Cell(math.inf if setup.is_local else setup.budget, setup.draw)
    found = projection_maps.signatures(cell, 0, setup.round, matched, _maps(setup))
    return replace(found, demanded=spread, signal=signal, noise=noise)


def rounds(setup: Setup) -> tuple[tuple[Signatures, ...], int]:
    """All rounds of the simulation, and the index of the chosen one."""
    if setup.is_local:
        return (event(setup),), 0
    return tuple(event(replace(setup, round=number)) for number in ROUNDS), ROUNDS.index(setup.round)


@st.cache_resource(max_entries=100, show_spinner=False)
def agreement(setup: Setup) -> dict[str, float]:
    """Adjusted Rand index of every matcher against the true modes, on the same lists."""
    world = _world(setup)
    if setup.is_local:
        lists = matching.moved(world.lists, setup.noise, setup.draw)
        return matching.agreement(lists, world.modes, world.by_name(setup.m), world.view, setup.draw)
    return {
        name: matching.adjusted_rand(
            modes.client_side(world, name, setup.m, setup.budget, setup.round, setup.draw).ids.ravel(), world.modes.ravel()
        )
        for name in world.by_name(setup.m)
    }


@st.cache_resource(max_entries=50, show_spinner=False)
def _under_noise(kind: modes.Kind, length: int, clients: int, m: int, draw: int) -> dict[str, tuple[float, ...]]:
    """Adjusted Rand index by matcher, at every noise level of the lists."""
    world = modes.world(kind, length, clients, draw)
    return matching.under_noise(world.lists, world.modes, world.by_name(m), world.view, [draw])


@st.cache_resource(max_entries=50, show_spinner=False)
def _anchor_scores(kind: modes.Kind, length: int, clients: int, noise: float, draw: int) -> AnchorScores | None:
    """How well the first m anchors separate the modes on lists with this noise."""
    world = modes.world(kind, length, clients, draw)
    lists = matching.moved(world.lists, noise, draw)
    return matching.anchor_scores(lists, world.modes, world.anchors, world.view, world.rule, draw)


def swept(setup: Setup, event: Signatures) -> Signatures:
    """The event with the sweep over noise levels."""
    rates = _under_noise(setup.kind, setup.length, setup.n_clients, setup.m, setup.draw)
    return replace(event, noise_levels=LEVELS, agreement_at=rates)


def scored(setup: Setup, event: Signatures) -> Signatures:
    """The event with the anchor scores."""
    noise = setup.noise if setup.is_local else 0.0
    return replace(event, anchors=_anchor_scores(setup.kind, setup.length, setup.n_clients, noise, setup.draw))


def _world(setup: Setup) -> modes.World:
    return modes.world(setup.kind, setup.length, setup.n_clients, setup.draw)


@st.cache_resource(max_entries=50, show_spinner=False)
def _maps(setup: Setup) -> projection_maps.ProjectionMaps:
    """The axes of the maps, from the modes without noise, so that they stay as noise grows. For simulations only."""
    world = _world(setup)
    return projection_maps.ProjectionMaps.of(modes.by_place(world)[1], world.signature(setup.m))


# The recorded list matchings of a run: a choice of run, model and round, and the accuracy of the chosen model.


RUN_FIELDS: list[link.Field[Any]] = [
    link.Field("run", "run", "run", link.Maybe(link.Text(40)), None),
    link.Field("epsilon", "e", "ε", link.Maybe(link.BUDGET), None),
    link.Field("seed", "s", "seed", link.Maybe(link.Whole(0, 2**31)), None),
    link.Field("at", "t", "round", link.Maybe(link.Whole(1, 100_000)), None),
    link.Field("few", "am", "anchors of the run", link.Maybe(link.Whole(2, 1000)), None),
    link.Field("added", "an", "noise on the run's lists", link.Maybe(link.Number(LEVELS[0], LEVELS[-1])), None),
]


def matched(result: Result, epsilon: float, *, live: bool) -> None:
    """Draws the lists of one budget on their map: of the newest round, once the run is over of any."""
    if not (rounds := [event for event in matchings(result) if event.cell.epsilon == epsilon]):
        return
    if live:
        _map(result, rounds[-1:], 0, live=True)
    else:
        _of_rounds(result, rounds_of(result, rounds[-1].cell))


@st.fragment
def _of_rounds(result: Result, rounds: Sequence[Signatures]) -> None:
    """Draws a slider over the rounds of one model and the map of the chosen one, alone when it moves."""
    key = f"lists-round-{result.run_id}-{rounds[-1].cell.epsilon:g}"
    _map(result, rounds, _slide_rounds("Lists of", result, rounds, len(rounds) - 1, key), live=False)


def _slide_rounds(title: str, result: Result, rounds: Sequence[Signatures], start: int, key: str) -> int:
    """The index of the chosen round; the only one, without a slider."""
    if len(rounds) == 1:
        return 0
    names = [_round_name(event, result) for event in rounds]
    return st.select_slider(title, range(len(rounds)), start, format_func=names.__getitem__, key=key)


def _map(result: Result, rounds: Sequence[Signatures], at: int, *, live: bool) -> None:
    """Draws one round's lists on the map that holds all rounds, with a link to the page Matching clients."""
    event = rounds[at]
    entries, prototypes = frames.entries([event]), frames.prototypes([event])
    within = figures.extent(frames.entries(rounds), frames.prototypes(rounds), "signature")
    picture = figure_card.built(figures.on_map, entries, prototypes, space="signature", within=within)
    figure_card.show(
        picture, result.provenance, key="lists", title="Which list entry is which?",
        note=f"{_round_name(event, result)}; the simulator's view, not visible to the server", table=entries, live=live,
    )  # fmt: skip
    if result.run_id is not None:
        layout.arrow("explore", "More of these lists on Explore", {"view": "clients", "sh": "run", "run": result.run_id})


def model(result: Result, view: state.View) -> Cell | None:
    """The chosen model of the run; None while no list is recorded."""
    if not (cells := {event.cell for event in matchings(result)}):
        return None
    budgets = sorted({cell.epsilon for cell in cells})
    labels = {each: epsilon_label(each, result.standing) for each in budgets}
    epsilon = fields.one_of("Requested ε", budgets, view, "epsilon", labels.__getitem__)
    seeds = sorted({cell.seed for cell in cells if cell.epsilon == epsilon})
    return Cell(epsilon, fields.one_of("Seed", seeds, view, "seed", str))


def matchings(result: Result) -> tuple[Signatures, ...]:
    """All recorded matchings of the run's lists, in order."""
    return tuple(of_kind(result.events, Signatures))


def rounds_of(result: Result, cell: Cell | None) -> tuple[Signatures, ...]:
    """All recorded rounds of one model."""
    return tuple(event for event in matchings(result) if event.cell == cell)


def at_round(result: Result, rounds: tuple[Signatures, ...], view: state.View) -> int:
    """Index of the chosen round, at first the last one, which the link does not name."""
    linked = view["at"]
    start = (linked if linked is not None and linked <= len(rounds) else len(rounds)) - 1
    at = _slide_rounds("Round", result, rounds, start, view.key(f"at-{len(rounds)}"))
    view.values["at"] = None if at == len(rounds) - 1 else at + 1
    return at


def empty_reason(result: Result) -> str:
    """Why a run that has ended has no lists to show."""
    if files.refusal(datasets.card(result.spec.data.dataset)) or result.spec.data.dataset.startswith("own:"):
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


def _round_name(event: Signatures, result: Result) -> str:
    return f"{result.task_name(event.task)}, round {event.round + 1}"
