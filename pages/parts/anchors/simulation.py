"""The simulation on the page Matching clients: lists of simulated clients with public digits, matched for every setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import streamlit as st

from dpcl_core.elements.anchors import MATCHERS, Start
from dpcl_core.events import AnchorScores, Signatures
from dpcl_core.explorers import anchor_play
from dpcl_core.figures.picture import Provenance, epsilon_text
from dpcl_core.spec import Cell
from pages.parts.shell import link
from pages.parts.shell.view import View

if TYPE_CHECKING:
    from dpcl_core.explorers.projection_maps import ProjectionMaps
    from dpcl_core.lessons.modes import World

Kind = Literal["exact", "fitted"]
Side = Literal["server", "client"]
KINDS = {"exact": "each mode once", "fitted": "fitted by EM"}
SIDES = {"server": "the server, on noisy lists", "client": "each client, to released groups"}
COUNTS = (2, 5, 10, 25, 50, 100, 200)
LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
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
class Setup:
    """Settings of the simulation: everything that determines the groups."""

    kind: Kind
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
        return self.is_local and self.kind == "exact" and self.draw == anchor_play.DRAW

    @property
    def matcher_name(self) -> str:
        return MATCHERS[self.matcher]

    def provenance(self) -> Provenance:
        """The provenance line of the figures."""
        how = f"noise {self.noise:g} on each list" if self.is_local else f"{self.round} of 4 rounds released"
        method = f"{self.matcher_name}, m = {self.m}, {how}"
        dataset = f"public digits dealt to {self.clients} simulated clients, {self.length} numbers each"
        budgets = () if self.is_local else (self.budget,)
        return Provenance(dataset, None, method, "", budgets, is_example=True)


def choose(view: View) -> tuple[Setup, Mapping[str, object]]:
    """Draws the controls, except those that `explorer` has; returns the setup and the values for the link."""

    def pick(name: str, title: str, options: Mapping[str, str]) -> str:
        start = str(view[name])
        return (
            st.selectbox(
                title, list(options), list(options).index(start), format_func=options.__getitem__, key=view.key(name)
            ) or start
        )  # fmt: skip

    def nearest(name: str, options: Sequence[float]) -> float:
        return min(options, key=lambda each: abs(each - cast(float, view[name])))

    def slide(name: str, title: str, options: tuple[float, ...], help_text: str = "") -> float:
        start = nearest(name, options)
        return st.select_slider(title, options, start, format_func=epsilon_text, key=view.key(name), help=help_text or None)

    side = pick("side", "Who matches", SIDES)
    dials = st.container()
    with st.expander("The lists"):
        kind = pick("kind", "Entries of a list", KINDS)
        length = int(slide("length", "Numbers in a vector", LENGTHS, "Beyond 32 every digit has zeros: pure noise."))
        draw = int(slide("draw", "Draw", DRAWS, "Other digits for each client, and other anchors."))
    kept = {name: view[name] for name in ("matcher", "m", "noise", "budget", "round", "clients")}
    if side == "server" and kind == "exact" and draw == anchor_play.DRAW:  # `Setup.is_played`
        lists = anchor_play.read(length)
        kept["m"], kept["noise"] = nearest("m", lists["counts"]), nearest("noise", lists["noises"])
    else:
        with dials:
            kept["matcher"] = pick("matcher", "Matcher", MATCHERS)
            kept["m"] = slide("m", "Anchors m", COUNTS, "Public digits at which the density of every entry is evaluated.")
            if side == "server":
                kept["noise"] = slide(
                    "noise", "Noise on the lists", LEVELS, "Its std on every coordinate; groups are about 0.4 apart."
                )
            else:
                kept["budget"] = slide("budget", "ε of all four rounds", BUDGETS)
                before = "0: groups of public digits only, before the first release."
                kept["round"] = int(slide("round", "Round", ROUNDS, before))
                kept["clients"] = int(slide("clients", "Clients", CLIENTS))
    m = int(cast(float, kept["m"]))
    values = {**kept, "side": side, "m": m, "kind": kind, "length": length, "draw": draw}
    setup = Setup(
        cast(Kind, kind), cast(Side, side), str(kept["matcher"]), m, cast(float, kept["noise"]), cast(float, kept["budget"]),
        cast(int, kept["round"]), cast(int, kept["clients"]) if side == "client" else CLIENTS[0], length, draw,
    )  # fmt: skip
    return setup, values


@st.cache_resource(max_entries=300, show_spinner=False)
def event(setup: Setup) -> Signatures:
    """The matching under these settings. `agreement` and `anchor_scores` are separate because they take longer."""
    from dpcl_core.explorers import projection_maps
    from dpcl_core.lessons import modes

    world = _world(setup)
    if setup.is_local:
        matched = modes.server_side(world, setup.matcher_name, setup.m, setup.noise, setup.draw)
        std, spread = setup.noise, {"local": modes.std_of_lists(world, 4.0), "central": modes.std_of_released(world, 4.0)}
    else:
        matched = modes.client_side(world, setup.matcher_name, setup.m, setup.budget, setup.round, setup.draw)
        std = modes.std_of_released(world, setup.budget)
        spread = {"local": modes.std_of_lists(world, setup.budget), "central": std}
    signal, noise = modes.lengths(world, std)
    measured = projection_maps.Measured(demanded=spread, signal=signal, noise=noise)
    cell = Cell(math.inf if setup.is_local else setup.budget, setup.draw)
    return projection_maps.signatures(cell, 0, setup.round, matched, _maps(setup), measured)


def rounds(setup: Setup) -> tuple[tuple[Signatures, ...], int]:
    """All rounds of the simulation, and the index of the chosen one."""
    if setup.is_local:
        return (event(setup),), 0
    return tuple(event(replace(setup, round=number)) for number in ROUNDS), ROUNDS.index(setup.round)


@st.cache_resource(max_entries=100, show_spinner=False)
def agreement(setup: Setup) -> dict[str, float]:
    """Adjusted Rand index of every matcher against the true modes, on the same lists."""
    from dpcl_core.explorers import matcher_comparison
    from dpcl_core.explorers.rand_index import adjusted_rand
    from dpcl_core.lessons import modes

    world = _world(setup)
    if setup.is_local:
        lists = _noised(world, setup.noise, setup.draw).lists
        return matcher_comparison.agreement(lists, world.modes, world.by_name(setup.m), world.view, setup.draw)
    return {
        name: adjusted_rand(
            modes.client_side(world, name, setup.m, setup.budget, setup.round, setup.draw).ids.ravel(), world.modes.ravel()
        )
        for name in world.by_name(setup.m)
    }


@st.cache_resource(max_entries=50, show_spinner=False)
def under_noise(kind: Kind, length: int, clients: int, m: int, draw: int) -> dict[str, tuple[float, ...]]:
    """Adjusted Rand index by matcher, at every noise level of the lists."""
    from dpcl_core.explorers import matcher_comparison
    from dpcl_core.lessons import modes

    world = modes.world(kind, length, clients, draw)
    return matcher_comparison.under_noise(world.lists, world.modes, world.by_name(m), world.view, [draw])


@st.cache_resource(max_entries=50, show_spinner=False)
def anchor_scores(kind: Kind, length: int, clients: int, noise: float, draw: int) -> AnchorScores | None:
    """How well the first m anchors separate the modes on lists with this noise."""
    from dpcl_core.explorers import matcher_comparison
    from dpcl_core.lessons import modes

    world = modes.world(kind, length, clients, draw)
    lists = _noised(world, noise, draw).lists
    return matcher_comparison.anchor_scores(lists, world.modes, world.anchors, world.view, world.rule, draw)


def measured(setup: Setup, event: Signatures, *, sweep: bool = False, anchors: bool = False) -> Signatures:
    """The event with the slower measurements: the sweep over noise levels, the anchor scores."""
    if sweep:
        rates = under_noise(setup.kind, setup.length, setup.clients, setup.m, setup.draw)
        event = replace(event, noise_levels=LEVELS, agreement_at=rates)
    if anchors:
        noise = setup.noise if setup.is_local else 0.0
        event = replace(event, anchors=anchor_scores(setup.kind, setup.length, setup.clients, noise, setup.draw))
    return event


def _world(setup: Setup) -> World:
    from dpcl_core.lessons import modes

    return modes.world(setup.kind, setup.length, setup.clients, setup.draw)


def _noised(world: World, noise: float, draw: int) -> World:
    """The same clients, with noise of this standard deviation on every coordinate of their lists."""
    from dpcl_core.explorers import matcher_comparison

    if not noise:
        return world
    return replace(world, lists=matcher_comparison.noised(world.lists, noise, np.random.default_rng(draw)))


@st.cache_resource(max_entries=50, show_spinner=False)
def _maps(setup: Setup) -> ProjectionMaps:
    """The axes of the maps, from the modes without noise, so that they stay as noise grows. For simulations only."""
    from dpcl_core.explorers import projection_maps
    from dpcl_core.lessons import modes

    world = _world(setup)
    return projection_maps.ProjectionMaps.of(modes.by_place(world)[1], world.signature(setup.m))
