"""Lesson 3, "One noise for all": pictures under one noise and under fresh noise, attacked, learned from, repaired."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.attacks.shared_noise_games import difference
from dpcl_core.figures import class_sums, shared_noise
from dpcl_core.figures.picture import Provenance
from dpcl_core.figures.shared_noise import scale_text
from dpcl_core.lessons import duel, repairs
from dpcl_core.lessons import shared_noise as game
from dpcl_core.lessons.duel import Duel
from dpcl_core.lessons.repairs import Repaired
from dpcl_core.lessons.shared_noise import Accuracies, Pictures, Recovery, Sharing
from dpcl_core.privacy.noise import ReleaseNoise
from dpcl_core.privacy.statement import shown
from pages.parts.claims.privacy_bar import side_by_side
from pages.parts.lessons.stage import Stage, percent
from pages.parts.shell import figure_card
from pages.parts.training import train_form

Noisy = dict[Sharing, NDArray[np.float64]]
SCALES = (0.1, 0.5, 1.4, 5.0, 13.0, 45.0, 200.0, 1000.0, 8000.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
N_DRAWS = 500  # noises drawn to measure their size on one picture: a standard error of 0.6 %
N_ROUNDS = 1000  # a side
N_RECOGNISED = 300
ROWS: dict[Sharing, str] = {"shared": "one noise for all", "independent": "fresh noise for each"}
REPAIRS = {
    "independent-laplace": "fresh on each picture",
    "naive": "fresh in every step",
    "dp-coeff-memory": "once, on sums over all",
}
LEARNERS = ("one noise for all", "one noise for all, cut off", "fresh noise for each")


def two_ways(stage: Stage) -> int | None:
    """Ten pictures under either noise, and the size of the noise on one of them."""
    if stage.press("Draw the noises", lambda: True) is None:
        return None
    told = _pictures()
    scale = stage.slide("strength", SCALES)
    noisy = stage.latest("noisy", lambda: _noisy(told, scale), scale)
    stage.see()
    ten = told.one_of_each()
    with_b = f"With b = {scale_text(scale)}"
    finding = f"{with_b}, one mask lies on all ten pictures of the second row, and another on each of the third."
    picture = class_sums.strips(
        {"without noise (public teaching data only)": list(told.train[ten])}
        | {ROWS[sharing]: list(rows[ten]) for sharing, rows in noisy.items()},
        told.classes,
        finding=finding,
        dark=stage.dark,
    )
    figure_card.show(picture, _source(told), key="lesson-two-ways", title="The same ten pictures")
    size = stage.latest("size", lambda: _sizes(told, scale), scale)
    rows = "".join(f"| {ROWS[sharing]} | {_size(each)} |\n" for sharing, each in size.items())
    st.markdown(f"| | mean size of the noise on the picture of 0, in {N_DRAWS} draws |\n|---|---:|\n{rows}")
    ratio = size["shared"] / size["independent"]
    return 2 if 0.9 < ratio < 1.1 else 0 if ratio > 1 else 1


def subtract(stage: Stage) -> int | None:
    """The visitor's picture opens the others, at any strength."""
    told = _pictures()
    label = st.segmented_control(
        "Your picture", range(len(told.classes)), default=0, format_func=told.classes.__getitem__, required=True,
        key=stage.key("yours"),
    )  # fmt: skip
    if stage.press("Subtract", lambda: True) is None:
        return None
    scale, ten = stage.slide("strength", SCALES), told.one_of_each()
    noisy = stage.latest("noisy", lambda: _noisy(told, scale), scale)
    mine = int(ten[label or 0])

    def attacked() -> dict[Sharing, tuple[list[NDArray[np.float64]], Recovery]]:
        found = {sharing: difference(rows, mine, told.train[mine]) for sharing, rows in noisy.items()}
        others = np.delete(np.arange(len(told.train)), mine)
        return {
            sharing: (list(rows[ten]), game.recovered(rows[others], told.train[others], told.levels))
            for sharing, rows in found.items()
        }

    found = stage.latest("found", attacked, scale, mine)
    stage.see()
    counts = {sharing: round(result.pictures * (len(told.train) - 1)) for sharing, (_, result) in found.items()}
    n = f"{len(told.train) - 1:,}"
    finding = (
        f"With one noise for all, {counts['shared']:,} of {n} other pictures come back exactly; "
        f"with fresh noise {counts['independent']:,} of {n}."
    )
    picture = class_sums.strips(
        {"published: one noise for all": list(noisy["shared"][ten])}
        | {f"after your subtraction: {ROWS[sharing]}": rows for sharing, (rows, _) in found.items()},
        told.classes,
        finding=finding,
        dark=stage.dark,
    )
    figure_card.show(picture, _source(told), key="lesson-subtract", title="What your subtraction gives")
    share = found["shared"][1].pictures
    return 2 if share > 0.99 else 1 if share > 0 else 0


def nobody(stage: Stage) -> int | None:
    """Only public pictures of other people are known."""
    if stage.press("Compare the means", lambda: True) is None:
        return None
    told = _pictures()
    scale, ten = stage.slide("strength", SCALES), told.one_of_each()
    noisy = stage.latest("noisy", lambda: _noisy(told, scale), scale)

    def attacked() -> dict[Sharing, tuple[list[NDArray[np.float64]], Recovery, float]]:
        found = {sharing: game.from_mean(rows, told.test) for sharing, rows in noisy.items()}
        return {
            sharing: (
                list(rows[ten]),
                game.recovered(rows, told.train, told.levels),
                game.recognised(rows, told.train, range(N_RECOGNISED)),
            )
            for sharing, rows in found.items()
        }

    found = stage.latest("found", attacked, scale)
    stage.see()
    (_, shared, known), (_, _, fresh_known) = found["shared"], found["independent"]
    finding = (
        f"With one noise for all, {percent(shared.pixels)} of all pixels come back exactly and {percent(known)} of "
        f"{N_RECOGNISED} pictures are recognised; with fresh noise {percent(fresh_known)} are."
    )
    picture = class_sums.strips(
        {"without noise (public teaching data only)": list(told.train[ten])}
        | {f"found with public pictures alone: {ROWS[sharing]}": rows for sharing, (rows, _, _) in found.items()},
        told.classes,
        finding=finding,
        dark=stage.dark,
    )
    figure_card.show(picture, _source(told), key="lesson-nobody", title="What a mean gives away")
    rows = "".join(
        f"| {ROWS[sharing]} | {_size(result.rms_error)} | {percent(recognised)} |\n"
        for sharing, (_, result, recognised) in found.items()
    )
    st.markdown(f"| | error of a pixel (root mean square; its range is 2) | recognised |\n|---|---:|---:|\n{rows}")
    return 2 if shared.pixels > 0.9 else 1 if known > 0.5 else 0


def a_learner(stage: Stage) -> int | None:
    """Accuracy of three learners at every strength, live; the slider reads one off."""

    def train() -> dict[float, Accuracies]:
        return {scale: game.accuracies(_pictures(), scale) for scale in (0.0, *SCALES)}

    found = stage.press("Train them all", train)
    if found is None:
        return None
    told, scale = _pictures(), stage.slide("strength", SCALES)
    nearest = min(found, key=lambda each: abs(each - scale))
    stage.see()
    curves = {
        LEARNERS[0]: {each: reached.shared for each, reached in found.items()},
        LEARNERS[1]: {each: reached.shared_clipped for each, reached in found.items()},
        LEARNERS[2]: {each: reached.independent for each, reached in found.items()},
    }
    picture = shared_noise.accuracy_by_scale(curves, chosen=nearest, chance=1 / len(told.classes), dark=stage.dark)
    figure_card.show(
        picture, _source(told), key="lesson-a-learner", title="What three learners make of it", table=_table(found)
    )
    st.caption("One draw of the noise for each point; the learner's filters are random, public and the same for all.")
    last = found[SCALES[-1]].shared
    return 2 if last > 0.75 else 1 if last > 0.3 else 0


def the_claim(stage: Stage) -> int | None:
    """Claimed, possible, proven: for one noise and for fresh noise."""
    scale = stage.slide("strength", SCALES)

    def played() -> dict[Sharing, Duel]:
        return {sharing: game.play(_pictures(), scale, sharing, N_ROUNDS) for sharing in ROWS}

    found = stage.press(f"Play 2 × {N_ROUNDS:,} rounds", played, scale)
    if found is None:
        return None
    told = _pictures()
    stage.see()
    claimed = game.claimed_epsilon(told, scale)
    holds: dict[Sharing, str] = {"shared": "**no bound**", "independent": f"{game.worst_epsilon(told, scale):.3g}"}
    proven = {sharing: duel.proven(one, [N_ROUNDS], 0.0)[0] for sharing, one in found.items()}
    rows = "".join(
        f"| {ROWS[sharing]} | {claimed:.2g} (not verified) | {holds[sharing]} | {percent(one.share_right)} | "
        f"**{proven[sharing]:.2f}** |\n"
        for sharing, one in found.items()
    )
    head = "| | ε claimed (Theorem 2) | ε that holds | machine right | ε at least, proven |\n|---|---:|---:|---:|---:|\n"
    st.markdown(head + rows)
    st.markdown(
        f"At b = {scale_text(scale)} the theorem's term for the noisy pictures, ε₁/γₓ, is 1/b = {claimed:.2g}. It does not "
        "ask whether the noise is shared."
    )
    with st.expander("Who attacks here, and what this does not show"):
        st.markdown(_FAIR)
    label = ":primary[Attack what the method itself keeps and releases →]"
    st.page_link("pages/privacy.py", label=label, query_params={"v": "1", "l": "1"})
    if found["shared"].share_right == 1.0:  # possible with one of her pictures only: no epsilon is large enough
        return 2
    return 1 if proven["shared"] > claimed else 0


def repair(stage: Stage) -> int | None:
    """Three methods with a ledger that adds up: what they promise and what they reach."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def run() -> dict[str, Repaired]:
        return repairs.repaired(epsilon)

    found = stage.press("Run all three", run, epsilon)
    if found is None:
        return None
    stage.see()
    rows = "".join(
        f"| {REPAIRS[method]} | {one.title} | {shown(one.guarantee.epsilon)} | **{percent(one.accuracy)}** |\n"
        for method, one in found.items()
    )
    st.markdown(f"| noise | method | ε at most | accuracy |\n|---|---|---:|---:|\n{rows}")
    st.caption(
        "Real runs, three seeds each, all ten digits in one task: nothing can be forgotten, the noise alone counts. Fresh "
        "noise in every step is DP-SGD; DP-A-GEM is the same with a memory, on a whole network."
    )
    side_by_side([(f"{one.title}:", one.guarantee) for one in found.values()])
    st.markdown("**Go on:** train the method and its repair on the same stream, then lay them side by side on Compare.")
    with st.container(horizontal=True, gap="medium"):
        for method, label in (("l2dp-ml", "Train with one noise for all"), ("dp-coeff-memory", "Train with noise on sums")):
            spec = repairs.to_train(method, epsilon)
            st.page_link("pages/train.py", label=f":primary[{label} →]", query_params=train_form.parameters_of(spec))
    reached = [found[method].accuracy for method in REPAIRS]
    return reached.index(min(reached))


_FAIR = """* **Who attacks:** someone who sees the noisy pictures, knows one of them without noise, and knows the two
pictures that she may have brought. Differential privacy allows for more: an attacker who knows everybody but her.
* **What the method publishes** is the trained network, and not the noisy pictures. The proof of its theorem goes through
them: it takes the noisy pictures as protected, and all that is made of them as free. The rounds above contradict that step.
* **What they do not show:** how much can be read from a published network alone. That is another attack; it is measured
on the Privacy page, on the method as it runs here. Where the noise is also used in testing, the published model holds it.
* **What does hold:** one sum over many pictures with this noise added once has a bound, as long as no second sum shares
it."""


@st.cache_resource(show_spinner=False)
def _pictures() -> Pictures:
    return game.pictures()


def _noisy(told: Pictures, scale: float) -> Noisy:
    return {sharing: game.perturbed(told.train, scale, sharing, ReleaseNoise()) for sharing in ROWS}


def _sizes(told: Pictures, scale: float) -> dict[Sharing, float]:
    """Mean size of the noise that either program puts on one picture, over many draws."""
    two, noise = told.train[:2], ReleaseNoise()
    return {
        sharing: float(np.mean([np.abs(game.perturbed(two, scale, sharing, noise)[0] - two[0]) for _ in range(N_DRAWS)]))
        for sharing in ROWS
    }


def _table(found: dict[float, Accuracies]) -> pd.DataFrame:
    """Columns b, then one a learner: accuracy in [0, 1]."""
    rows = [(scale, each.shared, each.shared_clipped, each.independent) for scale, each in found.items()]
    return pd.DataFrame(rows, columns=["b", *LEARNERS])


def _size(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _source(told: Pictures) -> Provenance:
    return Provenance(told.title, len(told.train), "Laplace noise on pixels", "", (), None, 0, ())
