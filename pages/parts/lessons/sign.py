"""Lesson "The sign that memorises": an unlearning term as printed, with flipped sign, and bounded; live and recorded."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from dpcl_core.figures import unlearning
from dpcl_core.figures.picture import Provenance, minus
from dpcl_core.lessons import sign as game
from dpcl_core.lessons.sign import Course, Record, Variant
from dpcl_core.methods.language.cards.pecl import Form
from pages.parts.lessons.stage import Stage
from pages.parts.shell import figure_card
from pages.parts.shell.layout import table
from pages.parts.shell.text import percent, plain

SCORES = (0.65, 0.684, 0.7, 0.75, 0.8, 0.9, 0.99)
STRENGTHS = (1.0, 3.0, 5.0, 7.0, 10.0, 12.0, 20.0)
DIGIT = 0.684  # Score of a digit with ten equally likely values
FORMS: tuple[Form, ...] = ("none", "printed", "flipped", "hinge")
LEVELS = ("1", "4", "16")
MOST = 13.3  # bits: the single most likely of 10,000
NEAR = 2.0  # bits: a code this close to codes never planted counts as hidden


def one_step(stage: Stage) -> int:
    """One token, one gradient step, four losses."""
    stage.press("Take one step", lambda: True)
    score, strength = stage.choose("score", SCORES), stage.choose("strength", STRENGTHS)
    stage.see()
    before = game.probability(score)
    after = {form: game.after_a_step(form, score, strength) for form in FORMS}
    table(("", "weight of its cross-entropy", "chance before", "chance after"), (
        (game.FORMS[form], minus(f"{_pull(form, score, strength):.2f}"), _chance(before),
         f"**{_chance(after[form])}**")
        for form in FORMS
    ))  # fmt: skip
    st.caption(
        f"The public model gives this token a chance of {_chance(before)}: a Score of {score:g}. The step has size 1, on "
        "the token's logit only, and all tokens of the text count in the loss."
    )
    if after["printed"] > after["none"]:
        return 2
    return 1 if after["printed"] > before else 0


def turn_it(stage: Stage) -> int:
    """The weight of a token in the loss, by its Score, for every term."""
    stage.press("Turn the sign", lambda: True)
    strength = stage.choose("strength", STRENGTHS)
    stage.see()
    scores = np.unique(np.append(np.linspace(0.4, 0.999, 120), [game.THETA, game.THETA + 1e-4, DIGIT]))
    lines = {game.FORMS[form]: np.array([_pull(form, score, strength) for score in scores.tolist()]) for form in FORMS}
    picture = unlearning.token_weights(scores, lines, chosen=DIGIT, dark=stage.dark)
    figure_card.show(
        picture, None, key="lesson-turn-it", title="How each term pulls at a token", note=f"λ = {strength:g}",
        table=pd.DataFrame({"score": scores, **lines}), moved=True,
    )  # fmt: skip
    least = 1 / (DIGIT - game.THETA)
    st.caption(
        f"The dotted line is a random digit. Turned, the term unlearns it only above λ = 1 / ({DIGIT:g} − {game.THETA:g}) = "
        f"{least:.1f}. The hinge is drawn for a token that the model finds as likely as the public model does."
    )
    return 0 if _pull("flipped", DIGIT, strength) < 0 else 1


def no_end(stage: Stage) -> int:
    """A small model trained now with each term."""
    score, strength = stage.choose("score", SCORES), stage.choose("strength", STRENGTHS)

    def train() -> dict[Form, Course]:
        forms: tuple[Form, ...] = (*FORMS[:-1], "mask", "hinge")
        return {form: game.course(form, score, strength) for form in forms}

    courses = stage.results("Train five models", train, score, strength)
    start = float(courses["none"].secret[0])
    picture = unlearning.secret_nats(
        {game.FORMS[form]: one.secret for form, one in courses.items()}, most=4 * start, public=start, dark=stage.dark
    )
    title = "The secret during training"
    figure_card.show(picture, None, key="lesson-no-end", title=title, table=_courses(courses), moved=True)
    table(("", "nats per digit of the secret", "nats per ordinary word"), [
        ("before training", f"{start:.1f}", f"{courses['none'].ordinary[0]:.2f}"),
        *((game.FORMS[form], f"{one.secret[-1]:.1f}", f"**{one.ordinary[-1]:.2f}**") for form, one in courses.items()),
    ])  # fmt: skip
    st.caption(
        "A softmax on sixteen contexts that share features: four of a code, twelve of ordinary words. Nats measure "
        "surprise: 0 is memorised, 2.3 is a digit of which nothing is known."
    )
    kept, lost = float(courses["none"].ordinary[-1]), float(courses["flipped"].ordinary[-1])
    return 2 if lost > kept + 0.5 else 1 if lost > kept + 0.02 else 0


def planted(stage: Stage) -> int:
    """The recorded training in which every token counts."""
    record = stage.results("Show what was measured", game.record)
    rows = {
        "without the term": record.of("full", "none"),
        "the printed term, λ = 10": record.of("full", "printed", 10.0, "oracle"),
        "hinge": record.of("full", "hinge", 1.0, "oracle"),
    }
    _exposures(stage, record, rows, key="planted")
    none, printed, _ = (one.mean("exposure", "16") for one in rows.values())
    return 2 if printed > none + 0.1 else 0 if printed < none - 0.1 else 1


def answers_only(stage: Stage) -> int:
    """The recorded training in which only the answer counts."""
    record = stage.results("Show what was measured", game.record)
    rows = {_name(one): one for one in record.variants if one.loss == "answer"}
    _exposures(stage, record, rows, key="answers-only")
    none, printed = record.of("answer", "none"), record.of("answer", "printed", 10.0, "oracle")
    rise = printed.mean("exposure", "16") - none.mean("exposure", "16")
    return 2 if rise > NEAR else 1 if rise > 0.5 else 0


def in_time(stage: Stage) -> int:
    """Every recorded term with its cost."""
    record = stage.results("Show them all", game.record)
    _every_term(record)
    st.markdown("**The same terms in SmolLM2**, a model hundreds of times as large, which can read:")
    _every_term(game.record(large=True))
    st.markdown(_LIMITS)
    st.page_link("pages/tokens.py", label=":primary[See the Score of every token →]")
    none, hinge = record.of("full", "none"), record.of("full", "hinge", 1.0, "oracle")
    if _holds(hinge, none):
        return 1
    return 0 if any(_holds(one, none) for one in record.variants if one.form == "flipped") else 2


def _every_term(record: Record) -> None:
    """Draws a table with all recorded terms of the `full` loss, and how they were recorded."""
    heads = "planted 16 times, bits", "from the least likely end", "never planted", "nats per ordinary token", "labels right"
    table(("term", *heads), (
        (_name(one), f"{one.mean('exposure', '16'):.1f}", f"{one.mean('below', '16'):.1f}",
         f"{one.mean('exposure', '0'):.1f}", f"{one.nats:.2f}", percent(one.accuracy, 0))
        for one in record.variants if one.loss == "full"
    ))  # fmt: skip
    st.caption(_made(record))


_LIMITS = """* **Where the spans come from:** the bounded terms are given the secret tokens. A Score has to guess them by
surprise, and then ordinary rare words are unlearned with the secrets.
* **No guarantee:** a term in a loss promises nothing. None of these models has a bound on what it reveals; for that,
training needs noise that is accounted for.
* **Scope:** a tiny model and a small one, and codes repeated up to 16 times. Directions carry over, numbers do not."""


def _name(one: Variant) -> str:
    """The row name of a recorded loss."""
    if one.form in ("none", "mask"):
        return game.FORMS[one.form]
    source = ", found by Score" if one.score == "score" else ""
    return f"{game.FORMS[one.form]}, λ = {one.strength:g}{source}"


def _holds(one: Variant, none: Variant) -> bool:
    """Whether planted codes rank like those never planted, from both ends, and ordinary text is learned equally well."""
    rise = one.mean("exposure", "16") - one.mean("exposure", "0")
    return rise <= NEAR and one.mean("below", "16") < NEAR + 1.5 and one.nats <= none.nats + 0.1


def _exposures(stage: Stage, record: Record, rows: dict[str, Variant], *, key: str) -> None:
    """Draws the figure and table of a recorded comparison, and how it was recorded."""
    picture = unlearning.code_exposure(
        [int(level) for level in LEVELS],
        {name: [one.exposures(level) for level in LEVELS] for name, one in rows.items()},
        controls=float(np.mean([one.mean("exposure", "0") for one in rows.values()])), most=MOST, dark=stage.dark,
    )  # fmt: skip
    title = "Exposure of planted codes"
    figure_card.show(picture, _source(record), key=f"lesson-{key}", title=title, table=_leaks(rows), moved=True)
    table(("term", "planted 16 times, bits", "most likely of 10,000", "written out by the model"), (
        (name, f"{one.mean('exposure', '16'):.1f}", percent(one.mean("first", "16"), 0),
         percent(one.mean("extracted", "16"), 0))
        for name, one in rows.items()
    ))  # fmt: skip
    st.caption(_made(record))


def _made(record: Record) -> str:
    return plain(
        f"Recorded on {record.date}: {len(record.variants[0].seeds)} seeds on {record.settings['backbone']}, with "
        f"{record.codes['16']} codes each for every number of repetitions. Terms are on the true "
        "secrets unless a row says otherwise. "
        f"Made again by: {record.command}"
    )


def _source(record: Record) -> Provenance:
    return Provenance(
        dataset=f"public synthetic mails with planted codes, {record.date}",
        n_train=int(record.settings["n_texts"]),
        method=f"LoRA on {record.settings['backbone']}, no noise",
        n_seeds=(len(record.variants[0].seeds),),
    )


def _courses(courses: dict[Form, Course]) -> pd.DataFrame:
    """Columns step, then nats of the secret and of ordinary words for each term."""
    columns = {f"{form}: {what}": getattr(one, what) for form, one in courses.items() for what in ("secret", "ordinary")}
    return pd.DataFrame({"step": range(len(courses["none"].secret)), **columns})


def _leaks(rows: dict[str, Variant]) -> pd.DataFrame:
    """Columns term, repetitions, seed, exposure."""
    records = [
        (name, int(level), seed, exposure)
        for name, one in rows.items()
        for level in ("0", *LEVELS)
        for seed, exposure in enumerate(one.exposures(level))
    ]
    return pd.DataFrame(records, columns=["term", "repetitions", "seed", "exposure"])


def _pull(form: Form, score: float, strength: float) -> float:
    """The pull on a token that the model finds as likely as the public model does."""
    return game.pull(form, score, strength, game.probability(score), game.probability(score))


def _chance(share: float) -> str:
    """A probability in percent, with two significant digits."""
    return f"{100 * share:.2g}\N{NO-BREAK SPACE}%"
