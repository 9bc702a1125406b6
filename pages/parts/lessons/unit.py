"""Lesson "Who is one person?": the same ε for an example, a person, a client and a token."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dpcl_core.figures import teaching
from dpcl_core.figures.teaching import Axis
from dpcl_core.lessons import unit as game
from dpcl_core.privacy.statement import headline, odds, shown
from pages.parts.lessons.drawn import chart
from pages.parts.lessons.stage import Stage
from pages.parts.shell.layout import table as rows_of
from pages.parts.shell.text import percent

EPSILONS = (0.5, 1.0, 2.0, 4.0)
PHOTOS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
UNITS = (10, 20, 100, 1000, 10_000, 100_000)
LENGTHS = (1, 2, 5, 10, 20, 40)
_RULES = {
    "example": "promise for a photo",
    "group": "promise for a person: wider noise",
    "clipped": "promise for a person: photos averaged first",
}
_CLAIMS = ("ε = 1 for each word", "ε = 2 for each mail", "ε = 8 for each person")


def her_photos(stage: Stage) -> int:
    """What a promise for one photo amounts to for a person with many."""
    stage.press("Add up her photos", lambda: True)
    epsilon, photos = stage.choose("epsilon", EPSILONS), stage.choose("photos", PHOTOS)
    stage.see()
    hers = {k: game.of_person(epsilon, int(k)) for k in PHOTOS}
    rows = [("exact, at the same δ", k, value) for k, value in hers.items()]
    rows += [("photos × ε", k, k * epsilon) for k in PHOTOS]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    exact = game.of_person(epsilon, int(photos))
    grown = game.by_groups(epsilon, int(photos))[1]
    finding = (
        f"ε = {epsilon:g} for a photo is ε = {shown(exact)} for a person with {photos:g} of them. "
        f"ε = {photos * epsilon:g} holds for her with a δ of {grown:.1g}{', which promises nothing' if grown == 1 else ''}."
    )
    picture = teaching.curves(
        table, Axis("photos of one person", is_log=True, ticks=PHOTOS), Axis("ε of the person", is_log=True), finding,
        chosen=photos, dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "From photos to a person", "closed form of Gaussian noise, δ = 1e-5")
    st.markdown(odds(exact, game.DELTA))
    of_twenty = game.of_person(1.0, 20)
    return 0 if of_twenty < 1.5 else 1 if of_twenty <= 20 else 2


def the_person(stage: Stage) -> int:
    """Accuracy under a promise for photos, and under two for people."""
    stage.press("Learn the digits three times", lambda: True)
    epsilon, photos = stage.choose("epsilon", EPSILONS), int(stage.choose("photos", PHOTOS))
    stage.see()
    found = stage.latest("accuracy", lambda: game.accuracies(epsilon, photos), epsilon, photos)
    table = pd.DataFrame([(_RULES[name], value) for name, value in found.items()], columns=["name", "value"])
    finding = (
        f"With {photos} photos a person and ε = {epsilon:g}: {percent(found['example'])} with a promise for a photo; "
        f"with one for a person {percent(found['group'])} by wider noise, {percent(found['clipped'])} by averaging first."
    )
    picture = teaching.bars(table, Axis("accuracy", is_share=True), finding, dark=stage.dark)
    chart(stage, picture, table, "What a promise for a person costs", "public digits, teaching noise, 20 draws")
    wide = game.accuracies(1.0, 20)
    return 0 if wide["group"] > wide["clipped"] + 0.02 else 1 if wide["clipped"] > wide["group"] + 0.02 else 2


def a_client(stage: Stage) -> int:
    """Noise on a mean over units, by their number."""
    stage.press("Average", lambda: True)
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.see()
    series = "noise on each number of the mean"
    table = pd.DataFrame([(series, n, game.noise_on_mean(epsilon, n)) for n in UNITS], columns=["series", "x", "y"])
    hospitals, patients = game.noise_on_mean(epsilon, 20), game.noise_on_mean(epsilon, 10_000)
    finding = (
        f"At ε = {epsilon:g} the noise on a mean over 20 hospitals is {hospitals:.2g}, over 10,000 patients {patients:.2g}: "
        f"{hospitals / patients:.0f} times less. A whole vector has length 1."
    )
    picture = teaching.curves(
        table, Axis("units that are averaged", is_log=True), Axis("noise (std)", is_log=True), finding, dark=stage.dark
    )
    chart(stage, picture, table, "Few units, wide noise", "closed form of Gaussian noise, δ = 1e-5")
    ratio = hospitals / patients
    return 0 if ratio < 2 else 1 if ratio < 100 else 2


def a_word(stage: Stage) -> int:
    """What a promise for each word amounts to for a mail."""
    epsilon = stage.choose("epsilon", EPSILONS)
    totals = stage.results("Add up a mail", lambda: {n: game.of_text(epsilon, n) for n in LENGTHS}, epsilon)
    rows = [("words × ε", n, n * epsilon) for n in LENGTHS] + [("composed", n, value) for n, value in totals.items()]
    table = pd.DataFrame(rows, columns=["series", "x", "y"])
    finding = f"ε = {epsilon:g} for each word is ε = {shown(totals[game.N_WORDS])} for a mail of {game.N_WORDS} words."
    picture = teaching.curves(
        table, Axis("words of the mail", is_log=True, ticks=tuple(map(float, LENGTHS))), Axis("ε of the mail"), finding,
        dark=stage.dark,
    )  # fmt: skip
    chart(stage, picture, table, "From words to a mail", "privacy loss distributions, δ = 1e-5")
    of_one = game.of_text(1.0, game.N_WORDS)
    return 0 if of_one < 2 else 1 if of_one < 1000 else 2


def three_claims(stage: Stage) -> int:
    """Three claims with different units, each for the same person."""

    def composed() -> tuple[float, float, float]:
        return game.of_text(1.0, game.N_WORDS * game.N_MAILS), game.of_person(2.0, game.N_MAILS), 8.0

    hers = stage.results("Translate all three", composed)
    units = ("one word of a mail", "one mail", "all that she wrote")
    rows_of(
        ("claim", "holds for", "for her, at most"),
        [(claim, unit, f"ε = {shown(value)}") for claim, unit, value in zip(_CLAIMS, units, hers, strict=True)],
        names=2, title=f"A person with {game.N_MAILS} mails of {game.N_WORDS} words",
    )  # fmt: skip
    best = hers.index(min(hers))
    st.markdown(f"**“{_CLAIMS[best]}” is the strongest for her.** {headline('one person', hers[best], game.DELTA, {})}")
    return best
