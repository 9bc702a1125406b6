"""Lesson "The sign that memorises": an unlearning term as printed, with flipped sign, and bounded; live and recorded."""

import math
from html import escape

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from dpcl_core.explorers import matching, projection_maps
from dpcl_core.figures import stream
from dpcl_core.figures.matching import agreement_by_noise, on_map
from dpcl_core.figures.picture import Provenance, epsilon_text, minus
from dpcl_core.lessons import modes
from dpcl_core.lessons import shared_noise as game
from dpcl_core.methods.language.params import UnlearningForm
from dpcl_core.runs import frames as matching_tables
from dpcl_core.spec import Cell
from pages.parts.layout import arrow, draw_table
from pages.parts.lesson_stage import Stage
from pages.parts.text import WORDS, percent, plain

SCORES = (0.65, 0.684, 0.7, 0.75, 0.8, 0.9, 0.99)
STRENGTHS = (1.0, 3.0, 5.0, 7.0, 10.0, 12.0, 20.0)
DIGIT = 0.684  # Score of a digit with ten equally likely values
FORMS: tuple[UnlearningForm, ...] = ("none", "printed", "flipped", "hinge")
LEVELS = ("1", "4", "16")
MOST = 13.3  # bits: the single most likely of 10,000
NEAR = 2.0  # bits: a code this close to codes never planted counts as hidden


def one_step(stage: Stage) -> int:
    """One token, one gradient step, four losses."""
    score, strength = stage.moved("Take one step", score=SCORES, strength=STRENGTHS)
    before = game.probability(score)
    after = {form: game.after_a_step(form, score, strength) for form in FORMS}
    draw_table(("", "weight of its cross-entropy", "chance before", "chance after"), (
        (game.FORMS[form], minus(f"{_pull(form, score, strength):.2f}"), _chance(before),
         f"**{_chance(after[form])}**")
        for form in FORMS
    ))  # fmt: skip
    st.caption(WORDS["lesson_sign"]["one_step"].format(chance=_chance(before), score=score))
    return 2 if after["printed"] > after["none"] else 1 if after["printed"] > before else 0


def turn_it(stage: Stage) -> int:
    """The weight of a token in the loss, by its Score, for every term."""
    (strength,) = stage.moved("Turn the sign", strength=STRENGTHS)
    scores = np.unique(np.append(np.linspace(0.4, 0.999, 120), [game.THETA, game.THETA + 1e-4, DIGIT]))
    lines = {game.FORMS[form]: np.array([_pull(form, score, strength) for score in scores.tolist()]) for form in FORMS}
    picture = stream.token_weights(scores, lines, chosen=DIGIT, dark=stage.dark)
    table = pd.DataFrame({"score": scores, **lines})
    stage.card(picture, None, table, "How each term pulls at a token", note=f"λ = {strength:g}")
    st.caption(WORDS["lesson_sign"]["turn_it"].format(digit=DIGIT, theta=game.THETA, least=1 / (DIGIT - game.THETA)))
    return 0 if _pull("flipped", DIGIT, strength) < 0 else 1


def no_end(stage: Stage) -> int:
    """A small model trained now with each term."""
    score, strength = stage.choose("score", SCORES), stage.choose("strength", STRENGTHS)

    def train() -> dict[UnlearningForm, game.Course]:
        forms: tuple[UnlearningForm, ...] = (*FORMS[:-1], "mask", "hinge")
        return {form: game.course(form, score, strength) for form in forms}

    courses = stage.results("Train five models", train, score, strength)
    start = float(courses["none"].secret[0])
    picture = stream.secret_nats(
        {game.FORMS[form]: one.secret for form, one in courses.items()}, most=4 * start, public=start, dark=stage.dark
    )
    columns = {f"{form}: {what}": getattr(one, what) for form, one in courses.items() for what in ("secret", "ordinary")}
    table = pd.DataFrame({"step": range(len(courses["none"].secret)), **columns})
    stage.card(picture, None, table, "The secret during training")
    draw_table(("", "nats per digit of the secret", "nats per ordinary word"), [
        ("before training", f"{start:.1f}", f"{courses['none'].ordinary[0]:.2f}"),
        *((game.FORMS[form], f"{one.secret[-1]:.1f}", f"**{one.ordinary[-1]:.2f}**") for form, one in courses.items()),
    ])  # fmt: skip
    st.caption(WORDS["lesson_sign"]["no_end"])
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
    _exposures(stage, record, rows)
    none, printed, _ = (one.mean("exposure", "16") for one in rows.values())
    return 2 if printed > none + 0.1 else 0 if printed < none - 0.1 else 1


def answers_only(stage: Stage) -> int:
    """The recorded training in which only the answer counts."""
    record = stage.results("Show what was measured", game.record)
    _exposures(stage, record, {_name(one): one for one in record.variants if one.loss == "answer"})
    none, printed = record.of("answer", "none"), record.of("answer", "printed", 10.0, "oracle")
    rise = printed.mean("exposure", "16") - none.mean("exposure", "16")
    return 2 if rise > NEAR else 1 if rise > 0.5 else 0


def in_time(stage: Stage) -> int:
    """Every recorded term with its cost."""
    record = stage.results("Show them all", game.record)
    _every_term(record)
    st.markdown("**The same terms in SmolLM2**, a model hundreds of times as large, which can read:")
    _every_term(game.record(large=True))
    st.markdown(WORDS["lesson_sign"]["limits"])
    arrow("explore", "See the Score of every token", {"view": "words"})
    none, hinge = record.of("full", "none"), record.of("full", "hinge", 1.0, "oracle")
    if _holds(hinge, none):
        return 1
    return 0 if any(_holds(one, none) for one in record.variants if one.form == "flipped") else 2


def _every_term(record: game.Record) -> None:
    """Draws a table with all recorded terms of the `full` loss, and how they were recorded."""
    heads = "planted 16 times, bits", "from the least likely end", "never planted", "nats per ordinary token", "labels right"
    draw_table(("term", *heads), (
        (_name(one), f"{one.mean('exposure', '16'):.1f}", f"{one.mean('below', '16'):.1f}",
         f"{one.mean('exposure', '0'):.1f}", f"{one.nats:.2f}", percent(one.accuracy, 0))
        for one in record.variants if one.loss == "full"
    ))  # fmt: skip
    st.caption(_made(record))


def _name(one: game.Variant) -> str:
    """The row name of a recorded loss."""
    if one.form in ("none", "mask"):
        return game.FORMS[one.form]
    source = ", found by Score" if one.score == "score" else ""
    return f"{game.FORMS[one.form]}, λ = {one.strength:g}{source}"


def _holds(one: game.Variant, none: game.Variant) -> bool:
    """Whether planted codes rank like those never planted, from both ends, and ordinary text is learned equally well."""
    rise = one.mean("exposure", "16") - one.mean("exposure", "0")
    return rise <= NEAR and one.mean("below", "16") < NEAR + 1.5 and one.nats <= none.nats + 0.1


def _exposures(stage: Stage, record: game.Record, rows: dict[str, game.Variant]) -> None:
    """Draws the figure and table of a recorded comparison, and how it was recorded."""
    picture = stream.code_exposure(
        [int(level) for level in LEVELS],
        {name: [one.exposures(level) for level in LEVELS] for name, one in rows.items()},
        controls=float(np.mean([one.mean("exposure", "0") for one in rows.values()])), most=MOST, dark=stage.dark,
    )  # fmt: skip
    seeds = [
        (name, int(level), seed, exposure)
        for name, one in rows.items()
        for level in ("0", *LEVELS)
        for seed, exposure in enumerate(one.exposures(level))
    ]
    source = Provenance(
        f"public synthetic mails with planted codes, {record.date}", int(record.settings["n_texts"]),
        f"LoRA on {record.settings['backbone']}, no noise", n_seeds=(len(record.variants[0].seeds),),
    )  # fmt: skip
    table = pd.DataFrame(seeds, columns=["term", "repetitions", "seed", "exposure"])
    stage.card(picture, source, table, "Exposure of planted codes")
    draw_table(("term", "planted 16 times, bits", "most likely of 10,000", "written out by the model"), (
        (name, f"{one.mean('exposure', '16'):.1f}", percent(one.mean("first", "16"), 0),
         percent(one.mean("extracted", "16"), 0))
        for name, one in rows.items()
    ))  # fmt: skip
    st.caption(_made(record))


def _made(record: game.Record) -> str:
    n_seeds, n_codes = len(record.variants[0].seeds), record.codes["16"]
    return plain(WORDS["lesson_sign"]["made"].format(record=record, n_seeds=n_seeds, n_codes=n_codes))


def _pull(form: UnlearningForm, score: float, strength: float) -> float:
    """The pull on a token that the model finds as likely as the public model does."""
    return game.pull(form, score, strength, game.probability(score), game.probability(score))


def _chance(share: float) -> str:
    """A probability in percent, with two significant digits."""
    return f"{100 * share:.2g}\N{NO-BREAK SPACE}%"


# Lesson "Which list entry is which?": lists matched by hand, by position, by anchors, by a projection, on the client.


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

    def matched(m: float) -> tuple[projection_maps.Matched, float]:
        return _share(modes.server_side(_world(384), matching.CENTRED, int(m), _LEVEL, 1))

    by_count, _, nearest = stage.moved_in("Match by signatures", matched, "anchors", COUNTS)
    world = _world(384)
    maps = projection_maps.ProjectionMaps.of(modes.by_place(world)[1], world.signature(int(nearest)))
    event = projection_maps.signatures(Cell(math.inf, 1), 0, 0, by_count[nearest][0], maps)
    entries, prototypes = matching_tables.entries([event]), matching_tables.prototypes([event])
    picture, title = on_map(entries, prototypes, space="signature", dark=stage.dark), "Signatures of every list entry"
    stage.card(picture, _provenance(), entries, title, name="map", note="not visible to the server")
    shares = {each: percent(by_count[each][1], 0) for each in COUNTS}
    cells = (f"**{share}**" if each == nearest else share for each, share in shares.items())
    draw_table(["anchors", *(f"{each:g}" for each in COUNTS)], [["in their group", *cells]])
    enough = [each for each in COUNTS if by_count[each][1] >= _NEARLY]
    return 2 if not enough else 0 if enough[0] <= 5 else 1


def projection(stage: Stage) -> int:
    """Agreement of the matchers at every noise level, for short and long vectors."""
    curves, _, nearest = stage.moved_in("Match at every noise", lambda n: _under_noise(_world(int(n))), "numbers", LENGTHS)
    _curves(stage, curves[nearest], {})
    arrow("explore", "More matchers and noise on Explore", {"view": "clients"})
    middle = {name: float(np.mean(values[2:5])) for name, values in curves[384.0].items()}
    ours, plain = middle[matching.CENTRED], max(middle["nearest mean"], middle["Hungarian"])
    ahead = ours - middle[matching.PROJECTION]
    return 2 if plain >= max(ours, middle[matching.PROJECTION]) else 0 if ahead > 0.1 else 1


def demanded(stage: Stage) -> int:
    """All lists matched under the noise that a budget requires of each list alone."""
    world = _world(32)

    def matched(epsilon: float) -> dict[str, float]:
        lists = matching.noised(world.lists, modes.std_of_lists(world, epsilon), np.random.default_rng(1))
        return matching.agreement(lists, world.modes, world.by_name(50), world.view, 1)

    agreement, epsilon = stage.chosen("Noise the lists and match", matched, "epsilon", BUDGETS)
    rows = ((name, f"{value:.2f}") for name, value in agreement.items())
    draw_table(("matcher", f"agreement at ε = {epsilon_text(epsilon)}"), rows)
    st.caption("Adjusted Rand index: 1 for the true groups, about 0 for random ones (within 0.1).")
    lines = {} if math.isinf(epsilon) else {
        "local": modes.std_of_lists(world, epsilon), "central": modes.std_of_released(world, epsilon)
    }  # fmt: skip
    _curves(stage, _under_noise(world), lines)
    best = max(agreement, key=agreement.__getitem__)
    return 2 if agreement[best] < 0.3 else 0 if best.startswith("anchors") else 1


def on_the_client(stage: Stage) -> int:
    """Four rounds in which clients match their entries to released groups."""
    world = _world(32)

    def play(epsilon: float) -> list[float]:
        return [_share(modes.client_side(world, matching.CENTRED, 50, epsilon, n, 1))[1] for n in range(modes.N_ROUNDS + 1)]

    shares, epsilon = stage.chosen("Play four rounds", play, "epsilon", BUDGETS)
    cells = [percent(share, 0) for share in shares]
    draw_table(["round", *map(str, range(len(shares)))], [["in their group", *cells]])
    noise = f"{modes.std_of_released(world, epsilon):.2g}" if not math.isinf(epsilon) else "none"
    st.markdown(f"**At ε = {epsilon_text(epsilon)} for all four rounds together, {cells[-1]} are in their group.**")
    st.caption(WORDS["lesson_sign"]["on_the_client"].format(noise=noise))
    arrow("explore", "Watch the rounds on Explore", {"view": "clients", "v": "1", "w": "client"})
    return 2 if shares[-1] >= _NEARLY else 1 if shares[-1] > 0.4 else 0


def _world(length: int) -> modes.World:
    return modes.world("exact", length, modes.N_CLIENTS, 1)


def _under_noise(world: modes.World) -> dict[str, tuple[float, ...]]:
    """Agreement of each matcher at each level of noise."""
    return matching.under_noise(world.lists, world.modes, world.by_name(50), world.view, DRAWS)


def _share(matched: projection_maps.Matched) -> tuple[projection_maps.Matched, float]:
    """The matched lists, and the share of entries in the group of their mode."""
    n = len(matched.prototypes)
    return matched, float(matching.is_correct(matched.ids.ravel(), matched.modes.ravel(), n, n).mean())


def _curves(stage: Stage, curves: dict[str, tuple[float, ...]], lines: dict[str, float]) -> None:
    rows = [(name, level, value) for name, of in curves.items() for level, value in zip(matching.LEVELS, of, strict=True)]
    table = pd.DataFrame(rows, columns=["matcher", "noise", "agreement"])
    picture = agreement_by_noise(table, lines, chosen=None if lines else 0.1, dark=stage.dark)
    stage.card(picture, _provenance(), table, "Agreement against noise")


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
