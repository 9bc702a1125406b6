"""Lesson "One noise for all": shared and fresh noise on pictures, attacks on both, learning from both, repairs."""

from collections.abc import Callable
from statistics import fmean

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.attacks.l2dp_games import difference
from dpcl_core.figures import stream
from dpcl_core.figures.picture import Provenance
from dpcl_core.figures.stream import scale_text
from dpcl_core.lessons import noise
from dpcl_core.lessons import shared_noise as game
from dpcl_core.methods import catalog
from dpcl_core.privacy.audit_bounds import Coins
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.statement import shown_number
from pages.parts import fields, pecl_claim, train_form
from pages.parts.layout import arrow, draw_table
from pages.parts.lesson_stage import Stage, by_name, reached
from pages.parts.text import WORDS, percent

Noisy = dict[game.Sharing, NDArray[np.float64]]
SCALES = (0.1, 0.5, 1.4, 5.0, 13.0, 45.0, 200.0, 1000.0, 8000.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_CLEAN = "without noise (public teaching data only)"
N_DRAWS = 500  # noises drawn to measure their size on one picture: a standard error of 0.6 %
N_ROUNDS = 1000  # per side
N_RECOGNISED = 300
LEARNERS = ("one noise for all", "one noise for all, cut off", "fresh noise for each")
ROWS: dict[game.Sharing, str] = {"shared": "one noise for all", "independent": "fresh noise for each"}
REPAIRS = {
    "independent-laplace": "fresh on each picture",
    "naive": "fresh in every step",
    "dp-coeff-memory": "once, on sums over all",
}


def _pictures_source() -> Provenance:
    """Where numbers on these pictures come from."""
    pictures = game.pictures()
    return Provenance(pictures.title, len(pictures.train), "Laplace noise on pixels")


def two_ways(stage: Stage) -> int:
    """Ten pictures under both kinds of noise, and the size of the noise on one of them."""
    stage.press("Draw the noises", lambda: True)
    pictures = game.pictures()
    scale, noisy = _noisy_pictures(stage)
    stage.see()
    ten = pictures.one_of_each()
    strips = {_CLEAN: pictures.train[ten]} | {ROWS[sharing]: rows[ten] for sharing, rows in noisy.items()}
    stage.strips(strips, pictures.classes, source=_pictures_source().line(), scale=scale_text(scale))
    size = stage.latest("size", lambda: _sizes(pictures, scale), scale)
    heads = ("", f"mean size of the noise on the picture of 0, in {N_DRAWS} draws")
    draw_table(heads, ((ROWS[sharing], _size(each)) for sharing, each in size.items()))
    ratio = size["shared"] / size["independent"]
    return 2 if 0.9 < ratio < 1.1 else 0 if ratio > 1 else 1


def subtract(stage: Stage) -> int:
    """Subtracting the visitor's own picture reveals the others, at any noise strength."""
    pictures = game.pictures()
    label = fields.choice("Your picture", dict(enumerate(pictures.classes)), 0, fields.row, key=stage.key("yours"))
    stage.press("Subtract", lambda: True)
    ten = pictures.one_of_each()
    scale, noisy = _noisy_pictures(stage)
    mine = int(ten[label])
    others = np.delete(np.arange(len(pictures.train)), mine)
    attempts = _attempts(stage, lambda rows: difference(rows, mine, pictures.train[mine]), noisy, others, scale, mine)
    stage.see()
    counts = {sharing: round(close.pictures * len(others)) for sharing, (_, close) in attempts.items()}
    strips = {"published: one noise for all": noisy["shared"][ten]}
    strips |= {f"after your subtraction: {ROWS[sharing]}": found[ten] for sharing, (found, _) in attempts.items()}
    stage.strips(strips, pictures.classes, source=_pictures_source().line(), n=len(others), **counts)
    share = attempts["shared"][1].pictures
    return 2 if share > 0.99 else 1 if share > 0 else 0


def nobody(stage: Stage) -> int:
    """The attack with public pictures of other people only."""
    stage.press("Compare the means", lambda: True)
    pictures = game.pictures()
    ten, every = pictures.one_of_each(), np.arange(len(pictures.train))
    scale, noisy = _noisy_pictures(stage)
    attempts = _attempts(stage, lambda rows: game.from_mean(rows, pictures.test), noisy, every, scale)
    stage.see()
    known = {
        sharing: game.recognised(found, pictures.train, range(N_RECOGNISED)) for sharing, (found, _) in attempts.items()
    }
    strips = {_CLEAN: pictures.train[ten]}
    strips |= {f"found with public pictures alone: {ROWS[sharing]}": found[ten] for sharing, (found, _) in attempts.items()}
    pixels = attempts["shared"][1].pixels
    stage.strips(
        strips, pictures.classes, source=_pictures_source().line(), pixels=pixels, known=known["shared"], n=N_RECOGNISED,
        fresh_known=known["independent"],
    )  # fmt: skip
    draw_table(("", "error of a pixel (root mean square; its range is 2)", "recognised"), (
        (ROWS[sharing], _size(close.rms_error), percent(known[sharing])) for sharing, (_, close) in attempts.items()
    ))  # fmt: skip
    return 2 if pixels > 0.9 else 1 if known["shared"] > 0.5 else 0


def a_learner(stage: Stage) -> int:
    """Accuracy of three learners at every noise strength; the slider picks one."""

    def train() -> dict[float, tuple[float, float, float]]:
        return {scale: game.accuracies(game.pictures(), scale) for scale in (0.0, *SCALES)}

    accuracies, scale = stage.press("Train them all", train), stage.choose("strength", SCALES)
    stage.see()
    nearest = min(accuracies, key=lambda each: abs(each - scale))
    columns = by_name(LEARNERS, accuracies.values())
    curves = {name: dict(zip(accuracies, column, strict=True)) for name, column in columns.items()}
    picture = stream.accuracy_by_scale(curves, chosen=nearest, chance=1 / len(game.pictures().classes), dark=stage.dark)
    table = pd.DataFrame(curves).rename_axis("b").reset_index()
    stage.card(picture, _pictures_source(), table, "Accuracy of three learners")
    st.caption("One draw of the noise for each point; the learner's filters are random, public and the same for all.")
    last = accuracies[SCALES[-1]][0]
    return 2 if last > 0.75 else 1 if last > 0.3 else 0


def the_claim(stage: Stage) -> int:
    """Claimed, valid and proved ε, for shared and for fresh noise."""

    def played(scale: float) -> dict[game.Sharing, noise.Duel]:
        return {sharing: game.play(game.pictures(), scale, sharing, N_ROUNDS) for sharing in ROWS}

    duels, scale = stage.chosen(f"Play 2 × {N_ROUNDS:,} rounds", played, "strength", SCALES)
    claimed, worst = (of(game.pictures(), scale) for of in (game.claimed_epsilon, game.worst_epsilon))
    holds: dict[game.Sharing, str] = {"shared": "**no bound**", "independent": f"{worst:.3g}"}
    draw_table(("", "ε claimed (Theorem 2)", "ε that holds", "machine right", "ε at least, proven"), (
        (ROWS[sharing], f"{claimed:.2g} (not verified)", holds[sharing], percent(one.share_right),
         f"**{one.proven(0.0):.2f}**")
        for sharing, one in duels.items()
    ))  # fmt: skip
    st.markdown(WORDS["lesson_shared"]["claim"].format(scale=scale_text(scale), claimed=claimed))
    with st.expander("The attacker, and what this does not show"):
        st.markdown(WORDS["lesson_shared"]["attacker"])
    arrow("privacy", "Attack what the method itself keeps and releases", {"v": "1", "l": "1"})
    if duels["shared"].share_right == 1.0:  # possible with only one of her two pictures: no ε is large enough
        return 2
    return 1 if duels["shared"].proven(0.0) > claimed else 0


def repair(stage: Stage) -> int:
    """Three methods with a valid ledger: their ε and their accuracy."""
    repaired, epsilon = stage.chosen("Run all three", noise.repaired, "epsilon", EPSILONS)
    titles = {method: catalog.card(method).title for method in repaired}
    draw_table(("noise", "method", "ε at most", "accuracy"), (
        (REPAIRS[method], titles[method], shown_number(promised.epsilon), f"**{percent(accuracy)}**")
        for method, (accuracy, promised) in repaired.items()
    ), names=2)  # fmt: skip
    st.caption(WORDS["lesson_shared"]["repair"])
    pecl_claim.side_by_side([(f"{titles[method]}:", promised) for method, (_, promised) in repaired.items()])
    st.markdown("**Go on:** train the method and its repair on the same stream, then lay them side by side on Compare.")
    with st.container(horizontal=True, gap="medium"):
        for method, label in (("l2dp-ml", "Train with one noise for all"), ("dp-coeff-memory", "Train with noise on sums")):
            arrow("train", label, train_form.parameters_of(noise.to_train(method, epsilon)))
    accuracies = [repaired[method][0] for method in REPAIRS]
    return accuracies.index(min(accuracies))


def _noisy_pictures(stage: Stage) -> tuple[float, Noisy]:
    """Draws the slider of the noise scale; returns the scale and all pictures under both kinds of noise."""
    scale = stage.choose("strength", SCALES)

    def noisy() -> Noisy:
        return {sharing: game.perturbed(game.pictures().train, scale, sharing, ReleaseNoise()) for sharing in ROWS}

    return scale, stage.latest("noisy", noisy, scale)


def _attempts(
    stage: Stage, attack: Callable[[NDArray[np.float64]], NDArray[np.float64]], noisy: Noisy, rows: NDArray[np.int64],
    *settings: object,
) -> dict[game.Sharing, tuple[NDArray[np.float64], game.Recovery]]:  # fmt: skip
    """By kind of noise: what an attack makes of all noisy pictures, and how close it comes to these rows."""
    clean, levels = game.pictures().train[rows], game.pictures().levels

    def attempted() -> dict[game.Sharing, tuple[NDArray[np.float64], game.Recovery]]:
        found = {sharing: attack(published) for sharing, published in noisy.items()}
        return {sharing: (one, game.recovered(one[rows], clean, levels)) for sharing, one in found.items()}

    return stage.latest("recovered", attempted, *settings)


def _sizes(pictures: game.Pictures, scale: float) -> dict[game.Sharing, float]:
    """Mean absolute noise on one picture by kind of noise, over many draws."""
    two, source = pictures.train[:2], ReleaseNoise()

    def mean(sharing: game.Sharing) -> float:
        return float(np.mean([np.abs(game.perturbed(two, scale, sharing, source)[0] - two[0]) for _ in range(N_DRAWS)]))

    return {sharing: mean(sharing) for sharing in ROWS}


def _size(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


# Lesson "Auditing one run": planted records, what right guesses prove, a fault that is found, and one that is not.


RIGHT = tuple(float(n) for n in range(100, 201, 10))
PLANTED = (100, 300, 1000, 3000, 10_000)
NOISES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
N_AUDITS, N_RUNS = 60, 20
_SOURCE = f"fresh coins and noise, {100 * noise.CONFIDENCE:g} % confidence, δ = 1e-5"
_KINDS = ("without assumptions", "if noise is Gaussian")


def plant(stage: Stage) -> int:
    """One run with planted records, and how many coins are guessed."""
    coins, _ = stage.chosen("Plant, run and guess", _audited, "epsilon", EPSILONS)
    counts = {"guessed right": float(coins.right), "guessed wrong": float(coins.guessed - coins.right)}
    stage.bars(
        counts, title=f"{noise.N_RECORDS:,} planted records, one run", source=_SOURCE, n_guessed=coins.guessed,
        n_right=coins.right, share=coins.right / coins.guessed,
    )  # fmt: skip
    return reached(fmean(one.right / one.guessed for one in (_audited(1.0) for _ in range(N_RUNS))), 0.53, 0.9)


def what_it_proves(stage: Stage) -> int:
    """The bound for any number of right guesses."""
    n_guessed = int(noise.GUESSED * noise.N_RECORDS)

    def bounds(right: float) -> tuple[float, float]:
        return noise.audit_proven(Coins(noise.N_RECORDS, n_guessed, int(right)))

    found, right, _ = stage.moved_in("Compute the bounds", bounds, "right", RIGHT)
    (plain, normal), lines = bounds(right), by_name(_KINDS, found.values())
    stage.curves(lines, RIGHT, source=_SOURCE, chosen=right, n_guessed=n_guessed, plain=plain, normal=normal)
    least = bounds(120)[0]
    return 0 if least == 0 else 1 if least < 0.9 else 2


def more_records(stage: Stage) -> int:
    """The bound with more and more planted records."""

    def audits(epsilon: float) -> list[tuple[float, float]]:
        return [noise.audit_proven(noise.played(epsilon, n)) for n in PLANTED]

    found, epsilon = stage.chosen("Audit five times", audits, "epsilon", EPSILONS)
    lines = by_name(_KINDS, found) | {"true ε": (epsilon,) * len(PLANTED)}
    best = max(found[-1])
    stage.curves(lines, PLANTED, source=_SOURCE, most=PLANTED[-1], best=best)
    return 2 if best > 1.05 * epsilon else 1 if best > 0.2 * epsilon else 0


def a_fault(stage: Stage) -> int:
    """An audit of a program whose noise is too small."""
    coins, share = stage.chosen("Audit the program", lambda share: _audited(1.0, share), "noise", NOISES)
    bound = noise.audit_proven(coins)[0]
    verdict = "more than was claimed: something is wrong" if bound > 1 else "no more than was claimed"
    stage.bars(
        {"claimed ε": 1.0, "proven: ε at least": bound}, title=f"Noise × {share:g} of what ε = 1 needs", source=_SOURCE,
        n_right=coins.right, n_guessed=coins.guessed, bound=bound, verdict=verdict,
    )  # fmt: skip
    of_a_tenth = noise.audit_proven(_audited(1.0, 0.1))[0]
    return 1 if of_a_tenth > 2 else 0 if of_a_tenth > 1 else 2


def silence(stage: Stage) -> int:
    """How often an audit notices, by how much noise is missing."""

    def caught() -> list[float]:
        return [noise.caught(1.0, noise.N_RECORDS, share, N_AUDITS) for share in NOISES]

    found = stage.results(f"Audit {N_AUDITS} times for each", caught)
    half = found[NOISES.index(0.5)]
    stage.curves({"faults that are noticed": found}, NOISES, source=_SOURCE, tenth=found[0], n_audits=N_AUDITS, half=half)
    return 0 if half > 0.9 else 2 if half > 0.2 else 1


def _audited(epsilon: float, share: float = 1.0) -> Coins:
    """One audit of a run with this share of the noise that it needs."""
    return noise.played(epsilon, noise.N_RECORDS, share)
