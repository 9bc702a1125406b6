"""Lesson "Noise buys deniability": randomised response, its crowd and its odds, noise on a sum, and clipping before it."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import streamlit as st

from dpcl_core import presets
from dpcl_core.events import ScoredText
from dpcl_core.explorers import tokens as explorers_tokens
from dpcl_core.explorers.tokens import Dials, values
from dpcl_core.figures import tokens as figures
from dpcl_core.figures.picture import Provenance
from dpcl_core.lessons import adding, modes
from dpcl_core.lessons import label as game
from dpcl_core.papers import questions
from dpcl_core.privacy.statement import at_least, headline, odds, odds_bound, shown_number
from dpcl_core.spec import Adjacency
from pages.parts import token_heat
from pages.parts.layout import arrow, draw_table
from pages.parts.lesson_stage import Stage, reached
from pages.parts.text import percent

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
CROWDS = (10, 100, 1000, 10_000, 100_000)
CLIPS = (500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 30_000.0, 50_000.0)
INCOMES = (1e3, 3e3, 1e4, 3e4, 5e4, 1e5, 3e5, 1e6)
N_GAMES = 20_000


def one_answer(stage: Stage) -> int:
    """A thousand answers by a coin, by what they truly are."""
    truth = game.truths()
    said, epsilon = stage.chosen("Ask everybody", lambda epsilon: game.answers(truth, epsilon), "epsilon", EPSILONS)
    words = {"yes": 1, "no": 0}
    counts = {
        f"truly {true}, said {answer}": float(((truth == words[true]) & (said == words[answer])).sum())
        for true in words
        for answer in words
    }
    stage.bars(counts, n_yes=int((said == 1).sum()), truly=percent(float(truth[said == 1].mean()), 0))
    likely = game.posterior(epsilon)
    return 0 if likely > 0.99 else 2 if likely < game.SHARE + 0.01 else 1


def the_crowd(stage: Stage) -> int:
    """The share of true yes, estimated from crowds of several sizes."""

    def asked(epsilon: float) -> list[float]:
        return [game.estimate(game.answers(game.truths(n), epsilon), epsilon) for n in CROWDS]

    estimates, epsilon = stage.chosen("Ask crowds of every size", asked, "epsilon", EPSILONS)
    drawn = pd.DataFrame({"series": "estimate, with its 95 % range", "x": CROWDS, "y": estimates})
    drawn["half"] = [1.96 * game.estimate_std(n, epsilon) for n in CROWDS]
    true = pd.DataFrame({"series": "true share", "x": CROWDS, "y": game.SHARE})
    half = game.estimate_std(game.N_PEOPLE, epsilon)
    stage.curves(
        pd.concat([drawn, true]), table=drawn, n_people=game.N_PEOPLE, estimate=estimates[2], true_share=game.SHARE,
        points=100 * half,
    )  # fmt: skip
    return 0 if half > 0.2 else 1 if half > 0.002 else 2


def the_odds(stage: Stage) -> int:
    """How often a guesser is right who believes what is said, measured and by its formula."""

    def played(epsilon: float) -> float:
        truth = np.arange(N_GAMES, dtype=np.int64) % 2
        return float((game.answers(truth, epsilon) == truth).mean())

    measured, epsilon, nearest = stage.moved_in(f"Play {N_GAMES:,} rounds at every ε", played, "epsilon", EPSILONS)
    grid = np.geomspace(EPSILONS[0], EPSILONS[-1], 25)
    line = pd.DataFrame({"series": "e^ε / (1 + e^ε)", "x": grid, "y": [odds_bound(float(each), 0.0) for each in grid]})
    dots = pd.DataFrame({"series": "measured", "x": EPSILONS, "y": measured.values()})
    found = measured[nearest], odds_bound(nearest, 0.0)
    stage.curves(
        pd.concat([line, dots]), chosen=epsilon, table=dots, epsilon=nearest, right=found[0], n_games=N_GAMES, most=found[1]
    )
    return reached(odds_bound(1.0, 0.0), 0.55, 0.9)


def the_formula(stage: Stage) -> int:
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


def one_clerk(stage: Stage) -> int:
    """Error of the count with noise on each answer, and with noise on the sum."""
    stds = {"a coin for each answer": game.estimate_std, "noise once, on the count": game.clerk_std}

    def errors(epsilon: float) -> dict[str, list[float]]:
        return {name: [std(n, epsilon) * n for n in CROWDS] for name, std in stds.items()}

    lines, _ = stage.chosen("Compare", errors, "epsilon", EPSILONS)
    each, once = (values[CROWDS.index(game.N_PEOPLE)] for values in lines.values())
    stage.curves(lines, CROWDS, n_people=game.N_PEOPLE, each=each, once=once, ratio=each / once)
    return reached(each / once, 2, 10)


def one_large(stage: Stage) -> int:
    """How often people of several incomes are found in one noisy sum."""
    incomes = (*INCOMES, game.LARGEST)
    found, epsilon = stage.chosen(
        "Attack the sum", lambda epsilon: {one: game.attack_rates(one, epsilon) for one in incomes}, "epsilon", EPSILONS
    )
    hers, lines = found[1e6], {"right guesses": [found[one] for one in INCOMES]}
    stage.curves(lines, INCOMES, chosen=game.LARGEST, hers=hers, largest=found[game.LARGEST], ordinary=found[3e3])
    return 1 if hers > odds_bound(epsilon, game.DELTA) else 0


def clip_first(stage: Stage) -> int:
    """Error of the sum by the clip: what is cut off, noise, and both."""
    epsilon, clip = stage.moved("Try every clip", epsilon=EPSILONS, clip=CLIPS)
    lost, noise = zip(*(game.lost_and_noise(each, epsilon) for each in CLIPS), strict=True)
    both = [math.hypot(*parts) for parts in zip(lost, noise, strict=True)]
    best = min(range(len(CLIPS)), key=both.__getitem__)
    now, total = game.lost_and_noise(clip, epsilon), float(game.incomes().sum())
    stage.curves(
        {"cut off": lost, "noise": noise, "both": both}, CLIPS, chosen=clip, both=math.hypot(*now) / total,
        cut=now[0] / total, noise=now[1] / total, best_clip=CLIPS[best], least_error=both[best] / total,
    )  # fmt: skip
    return 0 if best == 0 else 2 if best == len(CLIPS) - 1 else 1


# Lesson "A guarantee like a contract": what a claim must say, its small print, claims that fell, and trying settings.


TRIALS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
SIGMAS = (1.0, 2.0, 4.0, 8.0, 16.0)
CLAIM = 3.0  # of the first step
RECORDED = "paper-harw-small"  # runs of a published method, attacked as they ended
_RULES: dict[str, Adjacency] = {"one person more or less": "add-remove", "one person replaced": "replace"}
_SOURCE = f"closed form of Gaussian noise, δ = {game.DELTA:g}"


def missing(stage: Stage) -> int:
    """The noise that one claim needs, by its small print."""
    (delta,) = stage.moved("Read the small print", delta=game.DELTAS)
    found = {name: [game.noise_of(CLAIM, each, rule) for each in game.DELTAS] for name, rule in _RULES.items()}
    one, other = found.values()
    low, high = min(one + other), max(one + other)
    title = f"Noise behind “ε = {CLAIM:g}”"
    stage.curves(found, game.DELTAS, title=title, chosen=delta, claim=CLAIM, low=low, high=high, ratio=high / low)
    st.markdown(f"The whole sentence: {headline('one person', CLAIM, delta, {})} {odds(CLAIM, delta)}")
    by_delta, by_rule = one[-1] / one[0], other[-1] / one[-1]
    return 2 if min(by_delta, by_rule) > 1.2 else 1 if by_delta > 1.2 else 0


def small_print(stage: Stage) -> int:
    """A program that prints whole records and keeps to its delta."""
    people, delta = stage.chosen("Run the program", game.printed_now, "delta", game.DELTAS)
    lines = {"people printed, on average": [game.expected_prints(each) for each in game.DELTAS]}
    stage.curves(
        lines, game.DELTAS, source=f"{game.N_PEOPLE:,} invented people, fresh coins", chosen=delta, n_printed=len(people),
        n_people=game.N_PEOPLE, expected=game.expected_prints(delta),
    )  # fmt: skip
    return reached(game.expected_prints(0.01), 1, 0.5 * game.N_PEOPLE)


def two_rules(stage: Stage) -> int:
    """One noise under both rules of who is a neighbour."""
    (sigma,) = stage.moved("Compare the rules", sigma=SIGMAS)
    lines = {name: [game.under(each, rule) for each in SIGMAS] for name, rule in _RULES.items()}
    one, other = (game.under(sigma, rule) for rule in _RULES.values())
    stage.curves(lines, SIGMAS, source=_SOURCE, chosen=sigma, one=one, other=other)
    ratio = game.under(4.0, "replace") / game.under(4.0, "add-remove")
    return 0 if ratio < 1.2 else 1 if ratio > 1.6 else 2


def three_columns(stage: Stage) -> int:
    """Recorded runs: what is claimed, what the ledger accounts for, and what an attack proves."""
    stage.results("Open the records", lambda: True)
    specs = presets.variants(RECORDED)
    titles, rows, survived = questions.question_names(specs), [], []
    for label, run in questions.recorded(specs).items():
        for epsilon in sorted({model.epsilon for model in run.models if math.isfinite(model.epsilon)}):
            bound, spent = run.audited(epsilon), max(m.accounted_epsilon for m in run.models if m.epsilon == epsilon)
            proven = "–" if bound is None else at_least(bound)
            rows.append((titles[label], f"{epsilon:g}", "no bound" if math.isinf(spent) else shown_number(spent), proven))
            survived += [] if bound is None else [bound <= epsilon]
    draw_table(("recorded run", "ε asked for", "ε accounted", "ε proven, at least"), rows)
    st.markdown(f"**{sum(survived)} of {len(survived)} attacked claims are still possible after the attack.**")
    return 2 if not any(survived) else 0 if all(survived) else 1


def best_of(stage: Stage) -> int:
    """What many trials on the same people cost.

    A bound: whoever sees one of n releases sees no more than whoever sees all, and which is best is decided without a look
    at the training data.
    """
    epsilon, trials = stage.moved("Add up the trials", epsilon=EPSILONS, trials=TRIALS)
    lines = {"all trials together": [adding.total(epsilon, int(n)) for n in TRIALS]}
    lines["what is reported"] = [epsilon] * len(TRIALS)
    stage.curves(lines, TRIALS, source=_SOURCE, chosen=trials, now=adding.total(epsilon, int(trials)))
    return reached(adding.total(1.0, 20), 1.5, 15)


def luck(stage: Stage) -> int:
    """How much better the best of several equal trials looks."""
    epsilon, trials = stage.moved("Train four hundred times", epsilon=EPSILONS, trials=TRIALS)
    values = game.scores(epsilon)
    best, mean = game.best_of(values, int(trials)), float(values.mean())
    lines = {"the best one": [game.best_of(values, int(n)) for n in TRIALS], "mean of all": [mean] * len(TRIALS)}
    stage.curves(lines, TRIALS, chosen=trials, best=best, mean=mean, points=100 * (best - mean))
    return reached(game.best_of(game.scores(1.0), 20) - float(game.scores(1.0).mean()), 0.01, 0.2)


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


def her_photos(stage: Stage) -> int:
    """What a promise for one photo amounts to for a person with many."""
    epsilon, photos = stage.moved("Add up her photos", epsilon=UNIT_EPSILONS, photos=PHOTOS)
    lines = {"exact, at the same δ": [game.of_person(epsilon, int(k)) for k in PHOTOS]}
    lines["photos × ε"] = [k * epsilon for k in PHOTOS]
    exact = game.of_person(epsilon, int(photos))
    grown = game.by_groups(epsilon, int(photos))[1]
    nothing = ", which promises nothing" if grown == 1 else ""
    stage.curves(lines, PHOTOS, chosen=photos, exact=exact, product=photos * epsilon, grown=grown, nothing=nothing)
    st.markdown(odds(exact, game.DELTA))
    of_twenty = game.of_person(1.0, 20)
    return 0 if of_twenty < 1.5 else 1 if of_twenty <= 20 else 2


def the_person(stage: Stage) -> int:
    """Accuracy under a promise for photos, and under two for people."""
    epsilon, photos = stage.moved("Learn the digits three times", epsilon=UNIT_EPSILONS, photos=PHOTOS)
    found = stage.latest("accuracy", lambda: game.accuracies(epsilon, int(photos)), epsilon, photos)
    bars = {_UNIT_RULES[name]: value for name, value in found.items()}
    stage.bars(bars, example=found["example"], group=found["group"], clipped=found["clipped"])
    wide = game.accuracies(1.0, 20)
    return 0 if wide["group"] > wide["clipped"] + 0.02 else 1 if wide["clipped"] > wide["group"] + 0.02 else 2


def a_client(stage: Stage) -> int:
    """Noise on a mean over units, by their number."""
    (epsilon,) = stage.moved("Average", epsilon=UNIT_EPSILONS)
    lines = {"noise on each number of the mean": [game.noise_on_mean(epsilon, n) for n in UNITS]}
    hospitals, patients = game.noise_on_mean(epsilon, 20), game.noise_on_mean(epsilon, 10_000)
    ratio = hospitals / patients
    stage.curves(lines, UNITS, hospitals=hospitals, patients=patients, ratio=ratio)
    return reached(ratio, 2, 100)


def a_word(stage: Stage) -> int:
    """What a promise for each word amounts to for a mail."""
    totals, epsilon = stage.chosen(
        "Add up a mail", lambda epsilon: [game.of_text(epsilon, n) for n in LENGTHS], "epsilon", UNIT_EPSILONS
    )
    lines = {"words × ε": [n * epsilon for n in LENGTHS], "composed": totals}
    stage.curves(lines, LENGTHS, total=totals[LENGTHS.index(game.N_WORDS)], n_words=game.N_WORDS)
    return reached(game.of_text(1.0, game.N_WORDS), 2, 1000)


def three_claims(stage: Stage) -> int:
    """Three claims with different units, each for the same person."""

    def composed() -> tuple[float, float, float]:
        return game.of_text(1.0, game.N_WORDS * game.N_MAILS), game.of_person(2.0, game.N_MAILS), 8.0

    hers, claims = stage.results("Translate all three", composed), stage.step.choices
    units = ("one word of a mail", "one mail", "all that she wrote")
    rows = [(claim, unit, f"ε = {shown_number(value)}") for claim, unit, value in zip(claims, units, hers, strict=True)]
    title = f"A person with {game.N_MAILS} mails of {game.N_WORDS} words"
    draw_table(("claim", "holds for", "for her, at most"), rows, names=2, title=title)
    best = hers.index(min(hers))
    st.markdown(f"**“{claims[best]}” is the strongest for her.** {headline('one person', hers[best], game.DELTA, {})}")
    return best


# Lesson "Surprise is not privacy": token scores, their ranking of personal data and look-alikes, and memorised texts.


ALPHAS = (0.0, 0.2, 0.3, 0.5, 0.7, 0.8, 1.0)
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_TITLE = "Does the score find personal data?"
TOP = 0.2  # share of all tokens that counts as most surprising
_NEAR, _WELL = 0.05, 0.8  # distance from 0.5 that still counts as chance; AUROC that counts as well separated


def look(stage: Stage) -> int:
    """A text shaded by surprise, and the kinds of the most surprising tokens of all texts."""
    corpus = modes.texts()
    places = range(len(corpus.sources))
    picked = st.selectbox("Family of texts", places, 1, format_func=corpus.sources.__getitem__, key=stage.key("family"))
    stage.press("Score a text", lambda: True)
    dials, texts = Dials(), modes.everything()
    text = corpus.text(picked, int(st.number_input("Text, 1 to 20", 1, 20, 4, key=stage.key("number"))) - 1)
    stage.see()
    token_heat.draw_shaded(text, dials, ["score1"], f"A made-up text of {corpus.sources[picked]}", key=stage.key("scored"))
    tokens = _tokens()
    surprise = np.concatenate([values(each, "score1", dials) for each in texts])
    most = surprise >= np.quantile(surprise, 1 - TOP)
    private, lookalike = tokens.is_private[most].mean(), tokens.is_lookalike[most].mean()
    st.markdown(
        f"**Of the {most.sum():,} most surprising tokens in {len(texts)} texts, {percent(private, 0)} are personal, "
        f"{percent(lookalike, 0)} only look like it, and {percent(1 - private - lookalike, 0)} are neither.**"
    )
    return 0 if private > 0.5 else 1


def rank(stage: Stage) -> int:
    """Personal tokens against all others, with and without stop words."""
    stage.results("Score all texts", lambda: True)
    aurocs = _bars(stage, [explorers_tokens.EVERY, explorers_tokens.NO_STOPS])
    return 0 if aurocs[explorers_tokens.EVERY] > 0.9 else 1 if aurocs[explorers_tokens.EVERY] > 0.6 else 2


def lookalikes(stage: Stage) -> int:
    """Personal tokens against harmless ones that look like them."""
    stage.results("Compare with look-alikes", lambda: True)
    aurocs = _bars(stage, [explorers_tokens.EVERY, explorers_tokens.NO_STOPS, explorers_tokens.AGAINST])
    alone = aurocs[explorers_tokens.AGAINST]
    if alone < 0.5 - _NEAR:
        return 2
    return 1 if alone <= 0.5 + _NEAR or aurocs[explorers_tokens.EVERY] - alone > _NEAR else 0


def alpha(stage: Stage) -> int:
    """Detection of personal data at every weight α."""

    def ranked(weight: float) -> dict[str, float]:
        return dict(explorers_tokens.scores(modes.ranked(modes.everything(), Dials(alpha=weight)), _tokens()).auroc)

    found, _, nearest = stage.moved_in("Rank at every α", ranked, "mix", ALPHAS)
    curves = {name: {each: found[each][name] for each in ALPHAS} for name in found[nearest]}
    picture = figures.by_alpha(curves, chosen=nearest, dark=stage.dark)
    stage.card(picture, _provenance(), pd.DataFrame(curves).rename_axis("alpha").reset_index(), _TITLE)
    best = max(curves[explorers_tokens.AGAINST].values())
    return 0 if best > _WELL else 1 if best > 0.5 + _NEAR else 2


def misses(stage: Stage) -> int:
    """Kinds of words by their mean score, and the noise that follows."""
    stage.results("Sort the kinds", lambda: True)
    _, kinds = token_heat.measured(modes.everything(), Dials())
    token_heat.by_kind(kinds, Dials().threshold)
    st.caption(f"θ = {Dials().threshold:g}: above it, a token is to be unlearned. AUROC is against unmarked tokens.")
    scores = kinds.set_index("kind")["mean_score"]
    named = [float(scores.get(kind, 0.0)) for kind in ("CONDITION", "NAME", "D:city")]
    return named.index(max(named))


def feedback(stage: Stage) -> int:
    """Scores by a model that has memorised the texts to a growing share."""
    found, share, _ = stage.moved_in("Learn by heart", lambda share: _private(_by_heart(share)), "by-heart", SHARES)
    texts = modes.everything()
    number = next((place for place, text in enumerate(texts) if "NAME" in text.kinds), 0)
    text, name = _by_heart(share)[number], "A made-up text, partly memorised"
    token_heat.draw_shaded(text, Dials(), ["score"], name, key=stage.key("known"))
    draw_table(("memorised", "mean score", "mean nominal ε (no guarantee)", "above θ", "AUROC, all tokens"), (
        (f"**{percent(each, 0)}**" if each == share else percent(each, 0), f"{score:.2f}", f"{nominal:.2g}",
         percent(recall, 0), f"{auroc:.2f}")
        for each, (score, nominal, recall, auroc) in found.items()
    ), names=0, title=f"Personal tokens of {len(texts)} texts")  # fmt: skip
    st.caption("Model and memory are mixed: (1 − share) P + share M, M from these texts alone. A stand-in for training.")
    arrow("explore", "Score other texts on Explore", {"view": "words"})
    change = found[SHARES[-1]][0] - found[SHARES[0]][0]
    return 2 if change < -0.02 else 0 if change > 0.02 else 1


def _bars(stage: Stage, groups: list[str]) -> dict[str, float]:
    """Draws bars of score and pattern for these comparisons; returns the score's AUROC by comparison."""
    table, _ = token_heat.measured(modes.everything(), Dials())
    shown = table[table["group"].isin(groups)]
    stage.card(figures.detection(shown, dark=stage.dark), _provenance(), shown, _TITLE)
    by = shown[shown["detector"] == "score"].set_index("group")["auroc"]
    return {str(group): float(value) for group, value in by.items()}


@cache
def _tokens() -> explorers_tokens.Tokens:
    """The tokens of all texts."""
    return explorers_tokens.gathered(modes.everything())


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
    return Provenance("made-up texts with marked personal data", len(modes.everything()), "bundled model")
