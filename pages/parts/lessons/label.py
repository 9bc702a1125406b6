"""Lesson 1, "The label that gives you away": attacks by the visitor and by a machine, on a data list and a public list."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import cast

import streamlit as st

from dpcl_core.figures import attack, class_sums
from dpcl_core.figures.picture import Provenance, epsilon_text
from dpcl_core.lessons import duel
from dpcl_core.lessons import label as game
from dpcl_core.lessons.duel import Duel
from dpcl_core.lessons.label import Door, EmptyRule, Listing, Neighbours, Releases
from dpcl_core.privacy import statement
from dpcl_core.privacy.mechanisms import class_sums_std
from pages.parts.claims.privacy_bar import privacy_bar
from pages.parts.lessons.stage import Stage, Waiting
from pages.parts.shell import figure_card
from pages.parts.shell.layout import table
from pages.parts.shell.text import percent

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
N_GUESSES = 5
N_ROUNDS = 2000  # per side and press
N_CURVE = 5000  # per side, to measure a whole curve
MOST_ROUNDS = 20_000  # per side in total, kept for a session
N_OTHERS = 4  # other people with her label, if a label needs five
LISTS: dict[Listing, str] = {"data": "list read from the data", "prior-const": "public list"}
_FRESH = "Each round is one release with fresh noise, never recorded."


def two_models(stage: Stage) -> int:
    """Shows both classifiers, with and without her."""
    epsilon = stage.values["epsilon"]

    def both() -> dict[str, Releases]:
        sides = {"without her": False, "with her": True}
        return {name: game.release(_neighbours(), is_in, "data", epsilon) for name, is_in in sides.items()}

    rows = stage.results("Release both", both)
    neighbours = _neighbours()
    st.html("".join(_chips(f"Labels of the classifier {name}", neighbours, one.labels) for name, one in rows.items()))
    new = set(rows["with her"].labels) - set(rows["without her"].labels)
    finding = "Without her the list ends at 8. With her a 9 is on it." if new else "Both lists are the same."
    every = range(len(neighbours.classes))
    picture = class_sums.strips(
        {name: [one.sums[0, label] if label in one.labels else None for label in every] for name, one in rows.items()},
        neighbours.classes, finding=finding, missing="not on<br>the list", dark=stage.dark,
    )  # fmt: skip
    figure_card.show(picture, _source("data", epsilon), key="lesson-two-models", title="What each classifier holds")
    _promise("data", epsilon)
    return 2 if new else 0


def your_turn(stage: Stage) -> int:
    """Five rounds against the list read from the data."""
    return _guessing(stage, "data")


def public_list(stage: Stage) -> int:
    """Five rounds against the public list, with her picture next to the noisy sum."""
    return _guessing(stage, "prior-const")


def thousands(stage: Stage) -> int:
    """The machine against the list from the data; every press adds rounds and raises the proved bound."""
    epsilon = stage.values["epsilon"]
    before = cast("Duel | None", stage.remembered("done", epsilon))

    def more() -> Duel:
        fresh = game.play(_neighbours(), "data", epsilon, N_ROUNDS)
        return fresh if before is None else before.joined(fresh)

    is_enough = before is not None and len(before.took_part) >= MOST_ROUNDS
    why_not = f"{MOST_ROUNDS:,} rounds per side are enough." if is_enough else ""
    played = stage.results("Play 2 × 2,000 rounds", more, epsilon, why_not=why_not)
    rounds = _rounds(len(played.took_part))
    _counts({LISTS["data"]: played})
    bounds = duel.proven(played, rounds, game.DELTA)
    picture = attack.proven_epsilon({LISTS["data"]: bounds}, rounds, advertised=epsilon, dark=stage.dark)
    figure_card.show(picture, _source("data", epsilon), key="lesson-thousands", title="What the rounds prove")
    st.caption(_FRESH)
    _promise("data", epsilon)
    return 1 if bounds[-1] > epsilon else 0


def the_bound(stage: Stage) -> int:
    """The machine against the public list: measured success, best possible, and promised bound."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def both() -> tuple[Duel, Duel]:
        neighbours = _neighbours()
        return game.play(neighbours, "prior-const", epsilon, N_CURVE), game.play(neighbours, "data", epsilon, N_ROUNDS)

    held, free = stage.results("Play 2 × 5,000 rounds", both, epsilon)
    sigma, source = _sigma(epsilon), _source("prior-const", epsilon)
    _counts({LISTS["prior-const"]: held, LISTS["data"]: free})
    if not duel.is_held(held, sigma):
        st.error("The attack beats the best possible one by more than chance allows. This is a fault of the app: report it.")
    st.markdown(
        f"Against the public list the machine is right in **{percent(held.share_right)}** of the rounds{_luck(held)}. "
        f"The best possible against this noise is **{percent(statement.gaussian_odds_bound(sigma))}**. "
        f"{statement.odds(epsilon, game.DELTA)}"
    )
    picture = attack.duel(held, sigma=sigma, epsilon=epsilon, delta=game.DELTA, dark=stage.dark)
    figure_card.show(picture, source, key="lesson-duel", title="Attack duel, public list")
    rounds = _rounds(N_ROUNDS)
    duels = {LISTS["data"]: free, LISTS["prior-const"]: held}
    bounds = {name: duel.proven(played, rounds, game.DELTA) for name, played in duels.items()}
    picture = attack.proven_epsilon(bounds, rounds, advertised=epsilon, dark=stage.dark)
    figure_card.show(picture, _source("both lists", epsilon), key="lesson-proven", title="What the rounds prove")
    st.caption(_FRESH)
    _promise("prior-const", epsilon)
    if held.share_right >= 0.95:
        return 2
    return 1 if held.share_right - 0.5 > 1.5 / held.n_rounds**0.5 else 0  # three standard errors of a coin


def side_doors(stage: Stage) -> int:
    """Four other ways in which the list of labels leaks."""

    def look() -> dict[Listing, tuple[Door, ...]]:
        return {listing: game.doors(_neighbours(), listing, stage.values["epsilon"]) for listing in LISTS}

    doors_by_list = stage.results("Look at the doors", look)
    heads = ("door", "without her", "with her", "reveals her?")
    for listing, doors in doors_by_list.items():
        rows = ((door.name, door.without, door.with_person, "**yes**" if door.tells else "no") for door in doors)
        table(heads, rows, names=4, title=LISTS[listing].capitalize())
    return 1 if any(door.tells for door in doors_by_list["data"]) else 0


def a_rule(stage: Stage) -> int:
    """The attack if labels of fewer than five people are left out, and she is the fifth."""
    epsilon = stage.values["epsilon"]

    def attacked() -> Duel:
        return game.play(_neighbours(N_OTHERS), "data", epsilon, N_ROUNDS, at_least=N_OTHERS + 1)

    played = stage.results("Play 2 × 2,000 rounds", attacked, epsilon)
    _counts({"a label needs five people": played})
    _promise("data", epsilon, N_OTHERS)
    return 1 if played.share_right > 0.95 else 0


def nobody(stage: Stage) -> int:
    """The attack on three programs that handle an empty task differently."""
    epsilon = stage.values["epsilon"]

    def attacked() -> dict[EmptyRule, Duel]:
        return {rule: game.play_empty(_neighbours(), rule, epsilon, N_ROUNDS) for rule in game.EMPTY_RULES}

    duels = stage.results("Play 2 × 2,000 rounds", attacked, epsilon)
    _counts({game.EMPTY_RULES[rule]: played for rule, played in duels.items()})
    st.markdown(
        f"The best possible against the noise of ε = {epsilon_text(epsilon)} is "
        f"{percent(statement.gaussian_odds_bound(_sigma(epsilon)))}. The third program stays within it"
        f"{_luck(duels['same'])}; the other two do not."
    )
    return 1 if duels["none"].share_right > 0.95 else 0


def _guessing(stage: Stage, listing: Listing) -> int:
    """Plays five rounds, each with a hidden coin and a fresh release; returns the choice that came true."""
    epsilon, neighbours = stage.values["epsilon"], _neighbours()
    rounds = cast("tuple[tuple[bool, bool], ...]", stage.remembered("rounds") or ())  # (is in, guessed in)
    if len(rounds) < N_GUESSES:
        name = f"round-{len(rounds)}"
        if stage.remembered(name) is None:
            coin = secrets.randbelow(2) == 1
            stage.remember((coin, game.release(neighbours, coin, listing, epsilon)), name)
        is_in, released = cast("tuple[bool, Releases]", stage.remembered(name))
        st.markdown(f"**Round {len(rounds) + 1} of {N_GUESSES}.** This was released:")
        st.html(_chips("Labels of the classifier", neighbours, released.labels))
        if listing == "prior-const":
            _sum_and_picture(stage, released, epsilon)

        def guess(guessed_in: bool) -> None:
            stage.remember((*rounds, (is_in, guessed_in)), "rounds")

        with st.container(key=stage.key("guess"), horizontal=True, gap="small"):
            st.button("She is in", key=stage.key("in"), on_click=guess, args=(True,))
            st.button("She is out", key=stage.key("out"), on_click=guess, args=(False,))
    for number, (was_in, guess_was_in) in enumerate(rounds, start=1):  # `is_in` belongs to the callback above
        verdict = "right" if was_in == guess_was_in else "wrong"
        st.markdown(f"Round {number}: you guessed {_side(guess_was_in)}, she was {_side(was_in)}: **{verdict}**.")
    if len(rounds) < N_GUESSES:
        raise Waiting
    stage.see()
    right = sum(is_in == guessed_in for is_in, guessed_in in rounds)
    st.markdown(f"You were right in **{right} of {N_GUESSES}** rounds.")
    st.button("Play five more", key=stage.key("again"), on_click=stage.forget)
    return 2 if right == N_GUESSES else 1 if right == N_GUESSES - 1 else 0


def _side(is_in: bool) -> str:
    return "in" if is_in else "out"


def _sum_and_picture(stage: Stage, released: Releases, epsilon: float) -> None:
    """Draws the noisy sum for her label next to her picture."""
    neighbours = _neighbours()
    held = released.sums[0, neighbours.label]
    picture = class_sums.strips(
        {"": [(held - held.min()) / (held.max() - held.min()), neighbours.person[0].astype(float)]},
        [f"held for {neighbours.classes[neighbours.label]}", "her picture"],
        finding=f"The sum for {neighbours.classes[neighbours.label]} looks like noise, with her and without her.",
        dark=stage.dark,
    )
    figure_card.show(picture, _source("prior-const", epsilon), key="lesson-guess", live=True)


def _counts(duels: dict[str, Duel]) -> None:
    """Draws a table of how often the machine was right."""
    table(("", "says “in” when she is in", "says “in” when she is out", "right"), (
        (name, f"{one.hits:,} of {len(one.took_part):,}", f"{one.false_alarms:,} of {len(one.stayed_away):,}",
         f"**{percent(one.share_right)}**")
        for name, one in duels.items()
    ))  # fmt: skip


def _chips(name: str, neighbours: Neighbours, labels: Sequence[int]) -> str:
    items = "".join(f"<li>{neighbours.classes[label]}</li>" for label in labels)
    return f'<div class="labels"><span>{name}:</span><ul aria-label="{name}">{items}</ul></div>'


def _rounds(n: int) -> list[int]:
    """Numbers of rounds per side at which the bound is computed."""
    return sorted({k * 10**power for power in range(1, 5) for k in (1, 2, 5) if k * 10**power < n} | {n})


def _promise(listing: Listing, epsilon: float, n_others: int = 0) -> None:
    """Draws the privacy bar of one release, from its ledger."""
    neighbours = _neighbours(n_others)
    ledger = game.release(neighbours, True, listing, epsilon).ledger
    privacy_bar({epsilon: game.promise(neighbours, listing, epsilon, ledger)})


def _sigma(epsilon: float) -> float:
    return class_sums_std(epsilon, game.DELTA, "add-remove")


def _luck(played: Duel) -> str:
    """The 95 % margin of the share of rounds won, in words."""
    return f" (± {196 * (0.25 / played.n_rounds) ** 0.5:.1f} points by chance, 95 % interval)"


@st.cache_resource(show_spinner=False)
def _neighbours(n_others: int = 0) -> Neighbours:
    return game.neighbours(n_others=n_others)


def _source(lists: str, epsilon: float) -> Provenance:
    neighbours = _neighbours()
    return Provenance(neighbours.title, len(neighbours.labels) + 1, "DP cosine classifier", lists, (epsilon,), game.DELTA)
