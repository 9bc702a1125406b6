"""Lesson "Noise buys deniability": randomised response, its crowd and its odds, noise on a sum, and clipping before it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from dpcl_core import presets
from dpcl_core.events import ScoredText
from dpcl_core.explorers import tokens as explorers_tokens
from dpcl_core.explorers.tokens import Dials, values
from dpcl_core.figures import tokens as figures
from dpcl_core.figures.picture import Provenance
from dpcl_core.lessons import label as game
from dpcl_core.lessons import modes
from dpcl_core.papers import questions
from dpcl_core.privacy.statement import at_least, headline, odds, odds_bound, shown_number
from dpcl_core.spec import Adjacency
from pages.parts import lesson_stage, token_heat
from pages.parts.layout import arrow, draw_table
from pages.parts.text import percent

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
CROWDS = (10, 100, 1000, 10_000, 100_000)
CLIPS = (500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 30_000.0, 50_000.0)
INCOMES = (1e3, 3e3, 1e4, 3e4, 5e4, 1e5, 3e5, 1e6)
N_GAMES = 20_000


def one_answer(stage: lesson_stage.Stage) -> int:
    """A thousand answers by a coin, by what they truly are."""
    epsilon, truth = stage.choose("epsilon", EPSILONS), game.truths()
    said = stage.results("Ask everybody", lambda: game.answers(truth, epsilon), epsilon)
    rows = [
        (f"truly {yes}, said {word}", float(((truth == place) & (said == answer)).sum()))
        for place, yes in ((1, "yes"), (0, "no"))
        for answer, word in ((1, "yes"), (0, "no"))
    ]
    stage.bars(rows, n_yes=int((said == 1).sum()), truly=percent(float(truth[said == 1].mean()), 0))
    likely = game.posterior(epsilon)
    return 0 if likely > 0.99 else 2 if likely < game.SHARE + 0.01 else 1


def the_crowd(stage: lesson_stage.Stage) -> int:
    """The share of true yes, estimated from crowds of several sizes."""
    epsilon = stage.choose("epsilon", EPSILONS)

    def asked() -> list[float]:
        return [game.estimate(game.answers(game.truths(n), epsilon), epsilon) for n in CROWDS]

    estimates = stage.results("Ask crowds of every size", asked, epsilon)
    drawn = pd.DataFrame({"series": "estimate, with its 95 % range", "x": CROWDS, "y": estimates})
    drawn["half"] = [1.96 * game.estimate_std(n, epsilon) for n in CROWDS]
    true = pd.DataFrame({"series": "true share", "x": CROWDS, "y": game.SHARE})
    half = game.estimate_std(game.COIN_N_PEOPLE, epsilon)
    stage.curves(
        pd.concat([drawn, true]), table=drawn, n_people=game.COIN_N_PEOPLE, epsilon=epsilon, estimate=estimates[2],
        true_share=game.SHARE, points=100 * half,
    )  # fmt: skip
    return 0 if half > 0.2 else 1 if half > 0.002 else 2


def the_odds(stage: lesson_stage.Stage) -> int:
    """How often a guesser is right who believes what is said, measured and by its formula."""

    def played() -> list[float]:
        truth = np.arange(N_GAMES, dtype=np.int64) % 2
        return [float((game.answers(truth, epsilon) == truth).mean()) for epsilon in EPSILONS]

    measured, epsilon = stage.moved_in(f"Play {N_GAMES:,} rounds at every ε", played, "epsilon", EPSILONS)
    grid = np.geomspace(EPSILONS[0], EPSILONS[-1], 25)
    line = pd.DataFrame({"series": "e^ε / (1 + e^ε)", "x": grid, "y": [odds_bound(float(each), 0.0) for each in grid]})
    dots = pd.DataFrame({"series": "measured", "x": EPSILONS, "y": measured})
    nearest = min(range(len(EPSILONS)), key=lambda place: abs(EPSILONS[place] - epsilon))
    stage.curves(
        pd.concat([line, dots]), chosen=epsilon, table=dots, epsilon=EPSILONS[nearest], right=measured[nearest],
        n_games=N_GAMES, most=odds_bound(EPSILONS[nearest], 0.0),
    )  # fmt: skip
    right = odds_bound(1.0, 0.0)
    return 0 if right < 0.55 else 1 if right < 0.9 else 2


def the_formula(stage: lesson_stage.Stage) -> int:
    """The limit of a guesser, derived line by line."""
    (epsilon,) = stage.moved("Work it out", epsilon=EPSILONS)
    likelier, p = math.exp(epsilon), odds_bound(epsilon, 0.0)
    draw_table(("because", "formula", f"at ε = {epsilon:g}"), (
        ("ε allows this ratio of “yes” from both sides", "p / (1 − p) = e^ε", f"{likelier:.3g}"),
        ("multiply by 1 − p", "p = e^ε − e^ε p", f"{likelier:.3g} − {likelier:.3g}\N{NO-BREAK SPACE}p"),
        ("bring p to one side", "p (1 + e^ε) = e^ε", f"{1 + likelier:.3g}\N{NO-BREAK SPACE}p = {likelier:.3g}"),
        ("divide by 1 + e^ε", "**p = e^ε / (1 + e^ε)**", f"**{p:.3f}**"),
        ("“yes” from 1,000 true yes", "1,000 p", f"{1000 * p:.0f}"),
        ("“yes” from 1,000 true no", "1,000 (1 − p)", f"{1000 * (1 - p):.0f}"),
    ), names=2)  # fmt: skip
    return 1 if 0.7 < odds_bound(1.0, 0.0) < 0.8 else 0


def one_clerk(stage: lesson_stage.Stage) -> int:
    """Error of the count with noise on each answer, and with noise on the sum."""
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.results("Compare", lambda: True, epsilon)
    names = ("a coin for each answer", "noise once, on the count")
    stds = game.estimate_std, game.clerk_std
    rows = [(name, n, std(n, epsilon) * n) for name, std in zip(names, stds, strict=True) for n in CROWDS]
    each, once = (std(game.COIN_N_PEOPLE, epsilon) * game.COIN_N_PEOPLE for std in stds)
    stage.curves(rows, n_people=game.COIN_N_PEOPLE, epsilon=epsilon, each=each, once=once, ratio=each / once)
    return 0 if each / once < 2 else 1 if each / once < 10 else 2


def one_large(stage: lesson_stage.Stage) -> int:
    """How often people of several incomes are found in one noisy sum."""
    epsilon = stage.choose("epsilon", EPSILONS)
    stage.results("Attack the sum", lambda: True, epsilon)
    rows = [("right guesses", one, game.attack_rates(one, epsilon)) for one in INCOMES]
    ordinary, largest, hers = (game.attack_rates(one, epsilon) for one in (3e3, game.LARGEST, 1e6))
    stage.curves(rows, chosen=game.LARGEST, epsilon=epsilon, hers=hers, largest=largest, ordinary=ordinary)
    return 1 if hers > odds_bound(epsilon, game.DELTA) else 0


def clip_first(stage: lesson_stage.Stage) -> int:
    """Error of the sum by the clip: what is cut off, noise, and both."""
    epsilon, clip = stage.moved("Try every clip", epsilon=EPSILONS, clip=CLIPS)
    parts = [game.lost_and_noise(each, epsilon) for each in CLIPS]
    errors = [math.hypot(*part) for part in parts]
    columns = {"cut off": [lost for lost, _ in parts], "noise": [noise for _, noise in parts], "both": errors}
    rows = [(name, x, y) for name, values in columns.items() for x, y in zip(CLIPS, values, strict=True) if y > 0]
    best = min(range(len(CLIPS)), key=errors.__getitem__)
    lost, noise = game.lost_and_noise(clip, epsilon)
    total = float(game.incomes().sum())
    stage.curves(
        rows, chosen=clip, clip=clip, both=math.hypot(lost, noise) / total, cut=lost / total, noise=noise / total,
        best_clip=CLIPS[best], least_error=errors[best] / total,
    )  # fmt: skip
    return 0 if best == 0 else 2 if best == len(CLIPS) - 1 else 1


# Lesson "A guarantee like a contract": what a claim must say, its small print, claims that fell, and trying settings.


TRIALS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
SIGMAS = (1.0, 2.0, 4.0, 8.0, 16.0)
CLAIM = 3.0  # of the first step
RECORDED = "paper-harw-small"  # runs of a published method, attacked as they ended
_RULES: dict[str, Adjacency] = {"one person more or less": "add-remove", "one person replaced": "replace"}
_GAUSSIAN = "closed form of Gaussian noise"


def missing(stage: lesson_stage.Stage) -> int:
    """The noise that one claim needs, by its small print."""
    (delta,) = stage.moved("Read the small print", delta=game.DELTAS)
    found = {name: [game.noise_of(CLAIM, each, rule) for each in game.DELTAS] for name, rule in _RULES.items()}
    rows = [(name, x, y) for name, values in found.items() for x, y in zip(game.DELTAS, values, strict=True)]
    every = [value for values in found.values() for value in values]
    stage.curves(
        rows, title=f"Noise behind “ε = {CLAIM:g}”", chosen=delta, claim=CLAIM, low=min(every), high=max(every),
        ratio=max(every) / min(every),
    )  # fmt: skip
    st.markdown(f"The whole sentence: {headline('one person', CLAIM, delta, {})} {odds(CLAIM, delta)}")
    by_delta, by_rule = found["one person more or less"][-1] / found["one person more or less"][0], every[-1] / every[7]
    return 2 if min(by_delta, by_rule) > 1.2 else 1 if by_delta > 1.2 else 0


def small_print(stage: lesson_stage.Stage) -> int:
    """A program that prints whole records and keeps to its delta."""
    delta = stage.choose("delta", game.DELTAS)
    people = stage.results("Run the program", lambda: game.printed_now(delta), delta)
    rows = [("people printed, on average", each, game.expected_prints(each)) for each in game.DELTAS]
    stage.curves(
        rows, source=f"{game.N_PEOPLE:,} invented people, fresh coins", chosen=delta, delta=delta, n_printed=len(people),
        n_people=game.N_PEOPLE, expected=game.expected_prints(delta),
    )  # fmt: skip
    expected = game.expected_prints(0.01)
    return 0 if expected < 1 else 1 if expected < 0.5 * game.N_PEOPLE else 2


def two_rules(stage: lesson_stage.Stage) -> int:
    """One noise under both rules of who is a neighbour."""
    (sigma,) = stage.moved("Compare the rules", sigma=SIGMAS)
    rows = [(name, each, game.under(each, rule)) for name, rule in _RULES.items() for each in SIGMAS]
    one, other = (game.under(sigma, rule) for rule in _RULES.values())
    stage.curves(rows, source=f"{_GAUSSIAN}, δ = {game.DELTA:g}", chosen=sigma, sigma=sigma, one=one, other=other)
    ratio = game.under(4.0, "replace") / game.under(4.0, "add-remove")
    return 0 if ratio < 1.2 else 1 if ratio > 1.6 else 2


def three_columns(stage: lesson_stage.Stage) -> int:
    """Recorded runs: what is claimed, what the ledger accounts for, and what an attack proves."""
    stage.results("Open the records", lambda: True)
    specs = presets.variants(RECORDED)
    titles, rows, survived, attacked = questions.question_names(specs), [], 0, 0
    for label, run in questions.recorded(specs).items():
        for epsilon in sorted({model.epsilon for model in run.models if math.isfinite(model.epsilon)}):
            bound, spent = run.audited(epsilon), max(m.accounted_epsilon for m in run.models if m.epsilon == epsilon)
            proven = "–" if bound is None else at_least(bound)
            rows.append((titles[label], f"{epsilon:g}", "no bound" if math.isinf(spent) else shown_number(spent), proven))
            if bound is not None:
                attacked, survived = attacked + 1, survived + (bound <= epsilon)
    draw_table(("recorded run", "ε asked for", "ε accounted", "ε proven, at least"), rows)
    st.markdown(f"**{survived} of {attacked} attacked claims are still possible after the attack.**")
    return 2 if survived == 0 else 0 if survived == attacked else 1


def best_of(stage: lesson_stage.Stage) -> int:
    """What many trials on the same people cost."""
    epsilon, trials = stage.moved("Add up the trials", epsilon=EPSILONS, trials=TRIALS)
    rows = [("all trials together", n, game.of_trials(epsilon, int(n))) for n in TRIALS]
    rows += [("what is reported", n, epsilon) for n in TRIALS]
    now = game.of_trials(epsilon, int(trials))
    stage.curves(rows, source=f"{_GAUSSIAN}, δ = {game.DELTA:g}", chosen=trials, trials=trials, epsilon=epsilon, now=now)
    of_twenty = game.of_trials(1.0, 20)
    return 0 if of_twenty < 1.5 else 1 if of_twenty < 15 else 2


def luck(stage: lesson_stage.Stage) -> int:
    """How much better the best of several equal trials looks."""
    epsilon, trials = stage.moved("Train four hundred times", epsilon=EPSILONS, trials=TRIALS)
    values = game.scores(epsilon)
    rows = [("the best one", n, game.best_of(values, int(n))) for n in TRIALS]
    mean = float(values.mean())
    rows += [("mean of all", n, mean) for n in TRIALS]
    best = game.best_of(values, int(trials))
    stage.curves(rows, chosen=trials, epsilon=epsilon, trials=trials, best=best, mean=mean, points=100 * (best - mean))
    flattered = game.best_of(game.scores(1.0), 20) - float(game.scores(1.0).mean())
    return 0 if flattered < 0.01 else 1 if flattered < 0.2 else 2


# Lesson "Who is one person?": the same ε for an example, a person, a client and a token.


UNIT_EPSILONS = (0.5, 1.0, 2.0, 4.0)
PHOTOS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
UNITS = (10, 20, 100, 1000, 10_000, 100_000)
LENGTHS = (1, 2, 5, 10, 20, 40)
_UNIT_RULES = {
    "example": "promise for a photo",
    "group": "promise for a person: wider noise",
    "clipped": "promise for a person: photos averaged first",
}
_CLAIMS = ("ε = 1 for each word", "ε = 2 for each mail", "ε = 8 for each person")


def her_photos(stage: lesson_stage.Stage) -> int:
    """What a promise for one photo amounts to for a person with many."""
    epsilon, photos = stage.moved("Add up her photos", epsilon=UNIT_EPSILONS, photos=PHOTOS)
    hers = {k: game.of_person(epsilon, int(k)) for k in PHOTOS}
    rows = [("exact, at the same δ", k, value) for k, value in hers.items()]
    rows += [("photos × ε", k, k * epsilon) for k in PHOTOS]
    exact = game.of_person(epsilon, int(photos))
    grown = game.by_groups(epsilon, int(photos))[1]
    stage.curves(
        rows, chosen=photos, epsilon=epsilon, exact=exact, photos=photos, product=photos * epsilon, grown=grown,
        nothing=", which promises nothing" if grown == 1 else "",
    )  # fmt: skip
    st.markdown(odds(exact, game.DELTA))
    of_twenty = game.of_person(1.0, 20)
    return 0 if of_twenty < 1.5 else 1 if of_twenty <= 20 else 2


def the_person(stage: lesson_stage.Stage) -> int:
    """Accuracy under a promise for photos, and under two for people."""
    epsilon, photos = stage.moved("Learn the digits three times", epsilon=UNIT_EPSILONS, photos=PHOTOS)
    found = stage.latest("accuracy", lambda: game.accuracies(epsilon, int(photos)), epsilon, photos)
    rows = [(_UNIT_RULES[name], value) for name, value in found.items()]
    stage.bars(
        rows, photos=photos, epsilon=epsilon, example=found["example"], group=found["group"], clipped=found["clipped"]
    )
    wide = game.accuracies(1.0, 20)
    return 0 if wide["group"] > wide["clipped"] + 0.02 else 1 if wide["clipped"] > wide["group"] + 0.02 else 2


def a_client(stage: lesson_stage.Stage) -> int:
    """Noise on a mean over units, by their number."""
    (epsilon,) = stage.moved("Average", epsilon=UNIT_EPSILONS)
    rows = [("noise on each number of the mean", n, game.noise_on_mean(epsilon, n)) for n in UNITS]
    hospitals, patients = game.noise_on_mean(epsilon, 20), game.noise_on_mean(epsilon, 10_000)
    stage.curves(rows, epsilon=epsilon, hospitals=hospitals, patients=patients, ratio=hospitals / patients)
    ratio = hospitals / patients
    return 0 if ratio < 2 else 1 if ratio < 100 else 2


def a_word(stage: lesson_stage.Stage) -> int:
    """What a promise for each word amounts to for a mail."""
    epsilon = stage.choose("epsilon", UNIT_EPSILONS)
    totals = stage.results("Add up a mail", lambda: {n: game.of_text(epsilon, n) for n in LENGTHS}, epsilon)
    rows = [("words × ε", n, n * epsilon) for n in LENGTHS] + [("composed", n, value) for n, value in totals.items()]
    stage.curves(rows, epsilon=epsilon, total=totals[game.N_WORDS], n_words=game.N_WORDS)
    of_one = game.of_text(1.0, game.N_WORDS)
    return 0 if of_one < 2 else 1 if of_one < 1000 else 2


def three_claims(stage: lesson_stage.Stage) -> int:
    """Three claims with different units, each for the same person."""

    def composed() -> tuple[float, float, float]:
        return game.of_text(1.0, game.N_WORDS * game.N_MAILS), game.of_person(2.0, game.N_MAILS), 8.0

    hers = stage.results("Translate all three", composed)
    units = ("one word of a mail", "one mail", "all that she wrote")
    draw_table(
        ("claim", "holds for", "for her, at most"),
        [(claim, unit, f"ε = {shown_number(value)}") for claim, unit, value in zip(_CLAIMS, units, hers, strict=True)],
        names=2, title=f"A person with {game.N_MAILS} mails of {game.N_WORDS} words",
    )  # fmt: skip
    best = hers.index(min(hers))
    st.markdown(f"**“{_CLAIMS[best]}” is the strongest for her.** {headline('one person', hers[best], game.DELTA, {})}")
    return best


# Lesson "Surprise is not privacy": token scores, their ranking of personal data and look-alikes, and memorised texts.


ALPHAS = (0.0, 0.2, 0.3, 0.5, 0.7, 0.8, 1.0)
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_TITLE = "Does the score find personal data?"
TOP = 0.2  # share of all tokens that counts as most surprising
_NEAR, _WELL = 0.05, 0.8  # distance from 0.5 that still counts as chance; AUROC that counts as well separated


def look(stage: lesson_stage.Stage) -> int:
    """A text shaded by surprise, and the kinds of the most surprising tokens of all texts."""
    corpus = modes.texts()
    places = range(len(corpus.sources))
    picked = st.selectbox("Family of texts", places, 1, format_func=corpus.sources.__getitem__, key=stage.key("family"))
    stage.press("Score a text", lambda: True)
    dials, texts = Dials(), modes.everything()
    number = int(st.number_input("Text, 1 to 20", 1, 20, 4, key=stage.key("number")))
    text = corpus.text(picked, number - 1)
    stage.see()
    token_heat.draw_shaded(text, dials, ["score1"], f"A made-up text of {corpus.sources[picked]}", key=stage.key("scored"))
    tokens = explorers_tokens.gathered(texts)
    surprise = np.concatenate([values(each, "score1", dials) for each in texts])
    most = surprise >= np.quantile(surprise, 1 - TOP)
    private, lookalike = tokens.is_private[most].mean(), tokens.is_lookalike[most].mean()
    st.markdown(
        f"**Of the {most.sum():,} most surprising tokens in {len(texts)} texts, {percent(private, 0)} are personal, "
        f"{percent(lookalike, 0)} only look like it, and {percent(1 - private - lookalike, 0)} are neither.**"
    )
    return 0 if private > 0.5 else 1


def rank(stage: lesson_stage.Stage) -> int:
    """Personal tokens against all others, with and without stop words."""
    stage.results("Score all texts", lambda: True)
    aurocs = _bars(stage, [explorers_tokens.EVERY, explorers_tokens.NO_STOPS])
    return 0 if aurocs[explorers_tokens.EVERY] > 0.9 else 1 if aurocs[explorers_tokens.EVERY] > 0.6 else 2


def lookalikes(stage: lesson_stage.Stage) -> int:
    """Personal tokens against harmless ones that look like them."""
    stage.results("Compare with look-alikes", lambda: True)
    aurocs = _bars(stage, [explorers_tokens.EVERY, explorers_tokens.NO_STOPS, explorers_tokens.AGAINST])
    alone = aurocs[explorers_tokens.AGAINST]
    if alone < 0.5 - _NEAR:
        return 2
    return 1 if alone <= 0.5 + _NEAR or aurocs[explorers_tokens.EVERY] - alone > _NEAR else 0


def alpha(stage: lesson_stage.Stage) -> int:
    """Detection of personal data at every weight α."""

    def ranked() -> dict[str, dict[float, float]]:
        texts = modes.everything()
        tokens = explorers_tokens.gathered(texts)
        by = {each: explorers_tokens.scores(modes.ranked(texts, Dials(alpha=each)), tokens).auroc for each in ALPHAS}
        return {name: {each: by[each][name] for each in ALPHAS} for name in by[ALPHAS[0]]}

    curves, chosen = stage.moved_in("Rank at every α", ranked, "mix", ALPHAS)
    nearest = min(ALPHAS, key=lambda each: abs(each - chosen))
    picture = figures.by_alpha(curves, chosen=nearest, dark=stage.dark)
    stage.card(picture, _provenance(), pd.DataFrame(curves).rename_axis("alpha").reset_index(), _TITLE)
    best = max(curves[explorers_tokens.AGAINST].values())
    return 0 if best > _WELL else 1 if best > 0.5 + _NEAR else 2


def misses(stage: lesson_stage.Stage) -> int:
    """Kinds of words by their mean score, and the noise that follows."""
    stage.results("Sort the kinds", lambda: True)
    _, kinds = token_heat.measured(modes.everything(), Dials())
    token_heat.by_kind(kinds, Dials().threshold)
    st.caption(f"θ = {Dials().threshold:g}: above it, a token is to be unlearned. AUROC is against unmarked tokens.")
    scores = kinds.set_index("kind")["mean_score"]
    named = [float(scores.get(kind, 0.0)) for kind in ("CONDITION", "NAME", "D:city")]
    return named.index(max(named))


def feedback(stage: lesson_stage.Stage) -> int:
    """Scores by a model that has memorised the texts to a growing share."""

    def learned() -> list[tuple[float, float, float, float, float]]:
        return [(share, *_private(_by_heart(share))) for share in SHARES]

    rows_by_share, share = stage.moved_in("Learn by heart", learned, "by-heart", SHARES)
    texts = modes.everything()
    number = next((place for place, text in enumerate(texts) if "NAME" in text.kinds), 0)
    text, name = _by_heart(share)[number], "A made-up text, partly memorised"
    token_heat.draw_shaded(text, Dials(), ["score"], name, key=stage.key("known"))
    draw_table(("memorised", "mean score", "mean nominal ε (no guarantee)", "above θ", "AUROC, all tokens"), (
        (f"**{percent(each, 0)}**" if each == share else percent(each, 0), f"{score:.2f}", f"{nominal:.2g}",
         percent(recall, 0), f"{auroc:.2f}")
        for each, score, nominal, recall, auroc in rows_by_share
    ), names=0, title=f"Personal tokens of {len(texts)} texts")  # fmt: skip
    st.caption("Model and memory are mixed: (1 − share) P + share M, M from these texts alone. A stand-in for training.")
    arrow("explore", "Score other texts on Explore", {"view": "words"})
    change = rows_by_share[-1][1] - rows_by_share[0][1]
    return 2 if change < -0.02 else 0 if change > 0.02 else 1


def _bars(stage: lesson_stage.Stage, groups: list[str]) -> dict[str, float]:
    """Draws bars of score and pattern for these comparisons; returns the score's AUROC by comparison."""
    table, _ = token_heat.measured(modes.everything(), Dials())
    shown = table[table["group"].isin(groups)]
    stage.card(figures.detection(shown, dark=stage.dark), _provenance(), shown, _TITLE)
    by = shown[shown["detector"] == "score"].set_index("group")["auroc"]
    return {str(group): float(value) for group, value in by.items()}


@st.cache_resource(max_entries=len(SHARES), show_spinner=False)
def _by_heart(share: float) -> Sequence[ScoredText]:
    """All texts, scored by a model that has memorised them to this share."""
    return modes.memorised_share(modes.everything(), share)


def _private(texts: Sequence[ScoredText]) -> tuple[float, float, float, float]:
    """For personal tokens: mean score, mean nominal ε if noised, share above the threshold; and AUROC over all tokens."""
    dials, tokens = Dials(), explorers_tokens.gathered(texts)
    score, private = modes.ranked(texts, dials), tokens.is_private
    nominal = np.concatenate([values(text, "nominal", dials) for text in texts])[private]
    return (
        float(score[private].mean()),
        float(np.nanmean(nominal)),
        explorers_tokens.recall(score, private, dials.threshold),
        explorers_tokens.scores(score, tokens).auroc[explorers_tokens.EVERY],
    )


def _provenance() -> Provenance:
    n_texts = len(modes.everything())
    return Provenance("made-up texts with marked personal data", n_texts, "bundled model")
