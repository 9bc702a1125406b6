"""Lesson 5, "The sign that memorises": an unlearning term as printed, turned round and bounded; live, and as recorded."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from dpcl_core.figures import unlearning
from dpcl_core.figures.picture import Provenance
from dpcl_core.lessons import sign as game
from dpcl_core.lessons.sign import Course, Form, Record, Variant
from pages.parts.lessons.stage import Stage, percent
from pages.parts.shell import figure_card
from pages.parts.shell.text import plain

SCORES = (0.65, 0.684, 0.7, 0.75, 0.8, 0.9, 0.99)
STRENGTHS = (1.0, 3.0, 5.0, 7.0, 10.0, 12.0, 20.0)
DIGIT = 0.684  # Score of a digit whose ten values are equally likely
LEVELS = ("1", "4", "16")
MOST = 13.3  # bits: the single most likely of 10,000
NEAR = 2.0  # bits from the codes never planted, within which a term is said to hide


def one_step(stage: Stage) -> int | None:
    """One token, one gradient step, four losses."""
    if stage.press("Take one step", lambda: True) is None:
        return None
    score, strength = stage.slide("score", SCORES), stage.slide("strength", STRENGTHS)
    stage.see()
    before = game.probability(score)
    forms: tuple[Form, ...] = ("none", "printed", "flipped", "hinge")
    after = {form: game.after_a_step(form, score, strength) for form in forms}
    pulls = {form: game.pull(form, score, strength, before, before) for form in forms}
    rows = "".join(
        f"| {game.FORMS[form]} | {_number(pulls[form])} | {_chance(before)} | **{_chance(after[form])}** |\n"
        for form in forms
    )
    st.markdown(f"| | weight of its cross-entropy | chance before | chance after |\n|---|---:|---:|---:|\n{rows}")
    st.caption(
        f"The public model gives this token a chance of {_chance(before)}: a Score of {score:g}. The step has size 1, on "
        "the token's logit alone, and all tokens of the text count in the loss."
    )
    if after["printed"] > after["none"]:
        return 2
    return 1 if after["printed"] > before else 0


def turn_it(stage: Stage) -> int | None:
    """The weight of a token in the loss, by its Score, for every term."""
    if stage.press("Turn the sign", lambda: True) is None:
        return None
    strength = stage.slide("strength", STRENGTHS)
    stage.see()
    scores = np.unique(np.append(np.linspace(0.4, 0.999, 120), [game.THETA, game.THETA + 1e-4, DIGIT]))
    forms: tuple[Form, ...] = ("none", "printed", "flipped", "hinge")
    lines = {
        game.FORMS[form]: np.array(
            [game.pull(form, score, strength, *(2 * (game.probability(score),))) for score in scores.tolist()]
        )
        for form in forms
    }
    picture = unlearning.pulls(scores, lines, chosen=DIGIT, dark=stage.dark)
    figure_card.show(picture, None, key="lesson-turn-it", title="How each term pulls at a token", note=f"λ = {strength:g}")
    least = 1 / (DIGIT - game.THETA)
    st.caption(
        f"The dotted line is a random digit. Turned, the term unlearns it only above λ = 1 / ({DIGIT:g} − {game.THETA:g}) = "
        f"{least:.1f}. The hinge is drawn for a token that the model finds as likely as the public model does."
    )
    return 0 if game.pull("flipped", DIGIT, strength, *(2 * (game.probability(DIGIT),))) < 0 else 1


def no_end(stage: Stage) -> int | None:
    """A small model trained with each term, now."""
    score, strength = stage.slide("score", SCORES), stage.slide("strength", STRENGTHS)

    def train() -> dict[Form, Course]:
        forms: tuple[Form, ...] = ("none", "printed", "flipped", "mask", "hinge")
        return {form: game.course(form, score, strength) for form in forms}

    found = stage.press("Train five models", train, score, strength)
    if found is None:
        return None
    stage.see()
    start = float(found["none"].secret[0])
    picture = unlearning.courses(
        {game.FORMS[form]: one.secret for form, one in found.items()}, most=4 * start, public=start, dark=stage.dark
    )
    figure_card.show(picture, None, key="lesson-no-end", title="The secret during training", table=_courses(found))
    rows = "".join(
        f"| {game.FORMS[form]} | {one.secret[-1]:.1f} | **{one.ordinary[-1]:.2f}** |\n" for form, one in found.items()
    )
    words = f"| before training | {start:.1f} | {found['none'].ordinary[0]:.2f} |\n"
    st.markdown(f"| | nats per digit of the secret | nats per ordinary word |\n|---|---:|---:|\n{words}{rows}")
    st.caption(
        "A softmax on sixteen contexts that share features: four of a code, twelve of ordinary words. Nats are surprise: 0 "
        "is known by heart, 2.3 is a digit of which nothing is known."
    )
    kept, lost = float(found["none"].ordinary[-1]), float(found["flipped"].ordinary[-1])
    return 2 if lost > kept + 0.5 else 1 if lost > kept + 0.02 else 0


def planted(stage: Stage) -> int | None:
    """The recorded training in which every token counts."""
    if stage.press("Show what was measured", lambda: True) is None:
        return None
    told = game.record()
    stage.see()
    rows = {
        "without the term": told.of("full", "none"),
        "the printed term, λ = 10": told.of("full", "printed", 10.0, "oracle"),
        "hinge": told.of("full", "hinge", 1.0, "oracle"),
    }
    _exposures(stage, told, rows, key="planted")
    none, printed, _ = (one.mean("exposure", "16") for one in rows.values())
    return 2 if printed > none + 0.1 else 0 if printed < none - 0.1 else 1


def answers_only(stage: Stage) -> int | None:
    """The recorded training in which the answer alone counts."""
    if stage.press("Show what was measured", lambda: True) is None:
        return None
    told = game.record()
    stage.see()
    rows = {_name(one): one for one in told.variants if one.loss == "answer"}
    _exposures(stage, told, rows, key="answers-only")
    none, printed = told.of("answer", "none"), told.of("answer", "printed", 10.0, "oracle")
    rise = printed.mean("exposure", "16") - none.mean("exposure", "16")
    return 2 if rise > NEAR else 1 if rise > 0.5 else 0


def in_time(stage: Stage) -> int | None:
    """Every recorded term beside what it costs."""
    if stage.press("Show them all", lambda: True) is None:
        return None
    told = game.record()
    stage.see()
    repairs = {_name(one): one for one in told.variants if one.loss == "full"}
    rows = "".join(
        f"| {name} | {one.mean('exposure', '16'):.1f} | {one.mean('below', '16'):.1f} | {one.mean('exposure', '0'):.1f} | "
        f"{one.nats:.2f} | {percent(one.accuracy, 0)} |\n"
        for name, one in repairs.items()
    )
    head = (
        "| term | planted 16 times, bits | from the least likely end | never planted | nats per ordinary token "
        "| labels right |\n|---|---:|---:|---:|---:|---:|\n"
    )
    st.markdown(head + rows)
    st.caption(_made(told))
    st.markdown(_LIMITS)
    label = ":primary[See the Score of every token →]"
    st.page_link("pages/tokens.py", label=label)
    none, hinge = told.of("full", "none"), told.of("full", "hinge", 1.0, "oracle")
    if _holds(hinge, none):
        return 1
    return 0 if any(_holds(one, none) for one in told.variants if one.form == "flipped") else 2


_LIMITS = """* **Where the spans come from:** the bounded terms were told which tokens are secret. A Score has to guess, and
it guesses by surprise: then ordinary rare words are lost with the secrets.
* **What this is not:** a term in a loss is no promise. None of these models has a bound on what it tells; for that,
training needs noise that is accounted for.
* **How far it goes:** a very small model and codes repeated up to 16 times. Take the directions, and not the numbers."""


def _name(one: Variant) -> str:
    """A recorded loss as a row's name."""
    if one.form in ("none", "mask"):
        return game.FORMS[one.form]
    found = ", found by Score" if one.score == "score" else ""
    return f"{game.FORMS[one.form]}, λ = {one.strength:g}{found}"


def _holds(one: Variant, none: Variant) -> bool:
    """Whether codes stay among those never planted, from either end, and ordinary text is learned as without a term."""
    told = one.mean("exposure", "16") - one.mean("exposure", "0")
    return told <= NEAR and one.mean("below", "16") < NEAR + 1.5 and one.nats <= none.nats + 0.1


def _exposures(stage: Stage, told: Record, rows: dict[str, Variant], *, key: str) -> None:
    """The figure of a recorded comparison, the table beside it, and how it was made."""
    controls = float(np.mean([one.mean("exposure", "0") for one in rows.values()]))
    picture = unlearning.exposures(
        [int(level) for level in LEVELS],
        {name: [one.each(level) for level in LEVELS] for name, one in rows.items()},
        controls=controls,
        most=MOST,
        dark=stage.dark,
    )
    figure_card.show(picture, _source(told), key=f"lesson-{key}", title="What planted codes tell", table=_leaks(rows))
    shown = "".join(
        f"| {name} | {one.mean('exposure', '16'):.1f} | {percent(one.mean('first', '16'), 0)} | "
        f"{percent(one.mean('extracted', '16'), 0)} |\n"
        for name, one in rows.items()
    )
    head = "| term | planted 16 times, bits | most likely of 10,000 | written out by the model |\n|---|---:|---:|---:|\n"
    st.markdown(head + shown)
    st.caption(_made(told))


def _made(told: Record) -> str:
    seeds = len(told.variants[0].seeds)
    codes = told.codes["16"]
    return plain(
        f"Recorded on {told.date}: {seeds} seeds, with {codes} codes each for every number of repetitions, on the bundled "
        f"model. Terms are on the true secrets unless a row says otherwise. Made again by: {told.command}"
    )


def _source(told: Record) -> Provenance:
    return Provenance(
        dataset=f"public synthetic mails with planted codes, {told.date}",
        n_train=int(told.settings["n_texts"]),
        method=f"LoRA on {told.settings['backbone']}, no noise",
        labels="",
        epsilons=(),
        delta=None,
        n_seeds=len(told.variants[0].seeds),
        runs=(),
    )


def _courses(found: dict[Form, Course]) -> pd.DataFrame:
    """Columns step, then nats of the secret and of ordinary words for each term."""
    columns = {f"{form}: {what}": getattr(one, what) for form, one in found.items() for what in ("secret", "ordinary")}
    return pd.DataFrame({"step": range(len(found["none"].secret)), **columns})


def _leaks(rows: dict[str, Variant]) -> pd.DataFrame:
    """Columns term, repetitions, seed, exposure."""
    told = [
        (name, int(level), seed, exposure)
        for name, one in rows.items()
        for level in ("0", *LEVELS)
        for seed, exposure in enumerate(one.each(level))
    ]
    return pd.DataFrame(told, columns=["term", "repetitions", "seed", "exposure"])


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _chance(share: float) -> str:
    """A chance that may be small: two digits that count."""
    return f"{100 * share:.2g}\N{NO-BREAK SPACE}%"
