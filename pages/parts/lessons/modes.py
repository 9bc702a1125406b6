"""Lesson "Which list entry is which?": lists matched by hand, by position, by anchors, by a projection, on the client."""

from __future__ import annotations

import math
from html import escape

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.explorers import matcher_comparison, projection_maps, rand_index
from dpcl_core.explorers.projection_maps import Matched
from dpcl_core.figures import matching, signatures
from dpcl_core.figures.picture import Provenance, epsilon_text
from dpcl_core.lessons import modes
from dpcl_core.lessons.modes import World
from dpcl_core.runs import matching as matching_tables
from dpcl_core.spec import Cell
from pages.parts.lessons.stage import Stage
from pages.parts.shell import figure_card
from pages.parts.shell.layout import table
from pages.parts.shell.text import percent

COUNTS = (2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0)
LENGTHS = (32.0, 384.0)
BUDGETS = (1.0, 4.0, 8.0, math.inf)
DRAWS = (1, 2, 3)  # random draws of the noise, averaged
_LEVEL = 0.1  # noise in the step about anchors
_NEARLY = 0.9  # share of entries in their group that counts as nearly all
_SHOWN = 16  # drawn numbers of each row


def by_hand(stage: Stage) -> int:
    """The visitor matches client B's entries to client A's; then the true partners are shown."""
    world = _world(32)
    one, other = world.lists.means[0], world.lists.means[1]
    st.html(_rows(one, "Client A", "ABCD"))
    st.html(_rows(other, "Client B", "1234"))
    with st.container(horizontal=True, gap="small"):
        guesses = [
            st.selectbox(f"Entry {place + 1} is like", list("ABCD"), index=place, key=stage.key(f"guess-{place}"), width=120)
            for place in range(len(other))
        ]
    stage.results("Look", lambda: True)
    true = [int((world.modes[0] == mode).argmax()) for mode in world.modes[1]]
    n_right = sum("ABCD"[partner] == letter for partner, letter in zip(true, guesses, strict=True))
    pairs = [
        _digit(other[place], f"Entry {place + 1} of client B") + _digit(one[partner], f"its true partner {'ABCD'[partner]}")
        for place, partner in enumerate(true)
    ]
    drawn = "".join(f'<div class="pair">{pair}</div>' for pair in pairs)
    st.html(f'<div class="list-digits">{drawn}</div>')
    st.markdown(f"**You matched {n_right} of {len(true)} right.** Random guessing gets one of four on average.")
    return 0 if n_right <= 1 else 1 if n_right <= 3 else 2


def by_place(stage: Stage) -> int:
    """Averages by position in the list, and averages by true mode."""
    stage.results("Average", lambda: True)
    places, true = modes.by_place(_world(32))
    for name, rows in (("By place in the list", places), ("By what they stand for", true)):
        drawn = "".join(_digit(row, str(place)) for place, row in enumerate(rows, start=1))
        st.html(f'<p class="soft">{escape(name)}</p><div class="list-digits">{drawn}</div>')
    apart, wanted = (float(np.linalg.norm(rows - rows.mean(axis=0), axis=1).mean()) for rows in (places, true))
    st.markdown(f"**Averages by place are {apart:.2f} from their mean, the true ones {wanted:.2f}.**")
    return 1 if apart < 0.5 * wanted else 0


def anchors(stage: Stage) -> int:
    """All lists matched by signatures, for every number of anchors."""

    def matched() -> dict[float, tuple[Matched, float]]:
        return {m: _share(modes.server_side(_world(384), matcher_comparison.CENTRED, int(m), _LEVEL, 1)) for m in COUNTS}

    by_count = stage.press("Match by signatures", matched)
    m = stage.choose("anchors", COUNTS)
    stage.see()
    nearest = min(COUNTS, key=lambda each: abs(each - m))
    _map(stage, by_count[nearest][0], int(nearest))
    shares = {each: percent(by_count[each][1], 0) for each in COUNTS}
    cells = (f"**{share}**" if each == nearest else share for each, share in shares.items())
    table(["anchors", *(f"{each:g}" for each in COUNTS)], [["in their group", *cells]])
    enough = [each for each in COUNTS if by_count[each][1] >= _NEARLY]
    return 2 if not enough else 0 if enough[0] <= 5 else 1


def projection(stage: Stage) -> int:
    """Agreement of the matchers at every noise level, for short and long vectors."""

    curves = stage.press("Match at every noise", lambda: {length: _under_noise(_world(int(length))) for length in LENGTHS})
    length = stage.choose("numbers", LENGTHS)
    stage.see()
    _curves(stage, curves[length], {}, "projection")
    st.page_link("pages/anchors.py", label=":primary[More matchers and noise on Matching clients →]")
    middle = {name: float(np.mean(values[2:5])) for name, values in curves[384.0].items()}
    ours, plain = middle[matcher_comparison.CENTRED], max(middle["nearest mean"], middle["Hungarian"])
    ahead = ours - middle[matcher_comparison.PROJECTION]
    return 2 if plain >= max(ours, middle[matcher_comparison.PROJECTION]) else 0 if ahead > 0.1 else 1


def demanded(stage: Stage) -> int:
    """All lists matched under the noise that a budget requires of each list alone."""

    epsilon, world = stage.choose("epsilon", BUDGETS), _world(32)

    def matched() -> dict[str, float]:
        lists = matcher_comparison.noised(world.lists, modes.std_of_lists(world, epsilon), np.random.default_rng(1))
        return matcher_comparison.agreement(lists, world.modes, world.by_name(50), world.view, 1)

    agreement = stage.results("Noise the lists and match", matched, epsilon)
    rows = ((name, f"{value:.2f}") for name, value in agreement.items())
    table(("matcher", f"agreement at ε = {epsilon_text(epsilon)}"), rows)
    st.caption("Adjusted Rand index: 1 for the true groups, about 0 for random ones (within 0.1).")
    lines = {} if math.isinf(epsilon) else {
        "local": modes.std_of_lists(world, epsilon), "central": modes.std_of_released(world, epsilon)
    }  # fmt: skip
    _curves(stage, _under_noise(world), lines, "demanded")
    best = max(agreement, key=agreement.__getitem__)
    return 2 if agreement[best] < 0.3 else 0 if best.startswith("anchors") else 1


def on_the_client(stage: Stage) -> int:
    """Four rounds in which clients match their entries to released groups."""

    epsilon, world = stage.choose("epsilon", BUDGETS), _world(32)

    def play() -> list[float]:
        rounds = range(modes.N_ROUNDS + 1)
        return [_share(modes.client_side(world, matcher_comparison.CENTRED, 50, epsilon, n, 1))[1] for n in rounds]

    shares = stage.results("Play four rounds", play, epsilon)
    cells = [percent(share, 0) for share in shares]
    table(["round", *map(str, range(len(shares)))], [["in their group", *cells]])
    noise = f"{modes.std_of_released(world, epsilon):.2g}" if not math.isinf(epsilon) else "none"
    st.markdown(f"**At ε = {epsilon_text(epsilon)} for all four rounds together, {cells[-1]} are in their group.**")
    st.caption(
        f"Noise on a coordinate of a released group: {noise}; groups are about 0.4 apart. Seeded noise on public digits, "
        "for demonstration."
    )
    query = {"v": "1", "w": "client"}
    st.page_link("pages/anchors.py", label=":primary[Watch the rounds on Matching clients →]", query_params=query)
    return 2 if shares[-1] >= _NEARLY else 1 if shares[-1] > 0.4 else 0


def _world(length: int) -> World:
    return modes.world("exact", length, modes.N_CLIENTS, 1)


def _under_noise(world: World) -> dict[str, tuple[float, ...]]:
    """Agreement of each matcher at each level of noise."""
    return matcher_comparison.under_noise(world.lists, world.modes, world.by_name(50), world.view, DRAWS)


def _share(matched: Matched) -> tuple[Matched, float]:
    """The matched lists, and the share of entries in the group of their mode."""
    n = len(matched.prototypes)
    return matched, float(rand_index.is_correct(matched.ids.ravel(), matched.modes.ravel(), n, n).mean())


def _map(stage: Stage, matched: Matched, m: int) -> None:
    world = _world(384)
    maps = projection_maps.ProjectionMaps.of(modes.by_place(world)[1], world.signature(m))
    event = projection_maps.signatures(Cell(math.inf, 1), 0, 0, matched, maps)
    entries, prototypes = matching_tables.entries([event]), matching_tables.prototypes([event])
    figure_card.show(
        signatures.on_map(entries, prototypes, space="signature", dark=stage.dark), _provenance(), key="lesson-map",
        title="Signatures of every list entry", note="not visible to the server", table=entries, moved=True,
    )  # fmt: skip


def _curves(stage: Stage, curves: dict[str, tuple[float, ...]], lines: dict[str, float], key: str) -> None:
    rows = [
        (name, level, value)
        for name, values in curves.items()
        for level, value in zip(matcher_comparison.LEVELS, values, strict=True)
    ]
    table = pd.DataFrame(rows, columns=["matcher", "noise", "agreement"])
    picture = matching.agreement_by_noise(table, lines, chosen=None if lines else 0.1, dark=stage.dark)
    figure_card.show(picture, _provenance(), key=f"lesson-{key}", title="Agreement against noise", table=table, moved=True)


def _rows(means: NDArray[np.float64], title: str, names: str) -> str:
    """A list as HTML rows, one shade per number, with the numbers as labels for screen readers."""
    top = float(abs(means).max())
    lines = ""
    for name, mean in zip(names, means[:, :_SHOWN], strict=True):
        cells = "".join(f'<i style="--n:{(value / top + 1) / 2:.3f}"></i>' for value in mean)
        numbers = ", ".join(f"{value:.1f}" for value in mean)
        label = f'role="img" aria-label="Entry {name} of {escape(title)}: {numbers}"'
        lines += f'<div class="list-row" {label}><b>{name}</b>{cells}</div>'
    return f'<p class="soft">{escape(title)}, the first {_SHOWN} numbers of each entry</p>{lines}'


def _digit(mean: NDArray[np.float64], name: str) -> str:
    """An entry's mean as an 8 × 8 picture in HTML."""
    cells = "".join(f'<i style="--n:{value:.2f}"></i>' for value in modes.picture(mean).ravel())
    drawn = f'<div class="list-digit" role="img" aria-label="{escape(name)}">{cells}</div>'
    return f"<figure>{drawn}<figcaption>{escape(name)}</figcaption></figure>"


def _provenance() -> Provenance:
    return Provenance("public digits, dealt to 20 simulated clients", None, "")
