"""Lists matched in a simulation, and surprise scores of made-up texts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcl_core.events import ScoredText
from dpcl_core.explorers.matching import CENTRED, adjusted_rand
from dpcl_core.explorers.tokens import AGAINST, EVERY, Dials, gathered, recall, scores, warning
from dpcl_core.lessons import modes
from dpcl_core.methods.federated.matchers import PublicView
from dpcl_core.privacy.accounting import Pld, subsampled_gaussian


def test_exact_lists_hold_each_mode_once_in_an_order_that_says_nothing() -> None:
    world = modes.world()
    assert world.lists.means.shape == (20, 4, 32)
    assert (np.sort(world.modes, axis=1) == np.arange(4)).all()
    assert world.lists.weights.sum(axis=1) == pytest.approx(1.0)
    # Twenty orders of four by lot: the same mode first in all of them has probability 4^-19.
    assert len({tuple(row) for row in world.modes.tolist()}) > 1
    assert (world.lists.targets.argmax(axis=2) == world.modes).all()
    fitted = modes.world("fitted")
    assert fitted.rule == "nearest"
    has_rows = fitted.lists.weights > 0
    assert (fitted.lists.targets.argmax(axis=2) == fitted.modes)[has_rows].all(), "the mode of most rows"


def test_long_vectors_say_nothing_more_and_the_radius_is_that_of_public_groups() -> None:
    short, long = modes.world("exact", modes.SHORT), modes.world("exact", modes.LONG)
    assert PublicView.of(short.public, modes.N_AXES).radius == pytest.approx(short.view.radius, abs=0.01)
    assert np.array_equal(long.lists.means[..., : modes.SHORT], short.lists.means)
    assert not long.lists.means[..., modes.SHORT :].any()
    assert np.array_equal(modes.picture(long.lists.means[0, 0]), modes.picture(short.lists.means[0, 0]))


def test_a_picture_shows_the_digit_and_averages_by_place_are_nearer_to_each_other_than_the_modes_are() -> None:
    """The mean of all zeros is dark in the middle and inked around it."""
    world = modes.world()
    drawn = modes.picture(world.lists.means[0, int((world.modes[0] == 0).argmax())])
    assert (drawn.shape, drawn.max()) == ((8, 8), 1.0)
    assert drawn[3:5, 3:5].mean() < 0.4 < drawn[2:6, [2, 5]].mean()
    places, true = (np.linalg.norm(rows - rows.mean(axis=0), axis=1).mean() for rows in modes.by_place(world))
    assert places < 0.6 * true


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_four_rounds_of_everybody_cost_what_was_asked_for(epsilon: float) -> None:
    event = subsampled_gaussian(modes.noise_multiplier(epsilon), 1.0, modes.N_ROUNDS)
    assert Pld().epsilon([event], modes.DELTA, "add-remove") == pytest.approx(epsilon, rel=0.01)


def test_noise_on_a_sum_is_shared_by_its_clients_and_noise_on_a_list_is_not() -> None:
    few, many = modes.world(n_clients=20), modes.world(n_clients=200)
    assert modes.std_of_released(few, 4.0) == pytest.approx(10 * modes.std_of_released(many, 4.0))
    assert modes.std_of_lists(few, 4.0) == pytest.approx(20 * modes.std_of_released(few, 4.0))
    assert modes.std_of_lists(few, 4.0) == modes.std_of_lists(many, 4.0)


def test_matching_on_the_client_works_where_noisy_lists_cannot_be_matched() -> None:
    world = modes.world(n_clients=50, draw=1)
    on_client = modes.client_side(world, CENTRED, 50, 4.0, modes.N_ROUNDS, 1)
    noisy = modes.server_side(world, CENTRED, 50, modes.std_of_lists(world, 4.0), 1)
    agreements = [adjusted_rand(found.ids.ravel(), world.modes.ravel()) for found in (on_client, noisy)]
    assert agreements[0] > 0.7 > 0.15 > abs(agreements[1])
    again = modes.client_side(world, CENTRED, 50, 4.0, modes.N_ROUNDS, 1)
    assert np.array_equal(again.prototypes, on_client.prototypes)
    assert not modes.client_side(world, CENTRED, 50, math.inf, 1, 1).noise_std


# Lesson 4: the corpus is scored as it stands, what is known by heart scores 0, and measures do not move by themselves.


def test_there_are_as_many_texts_of_every_source_with_their_spans_each_scored_as_among_all() -> None:
    told, everything = modes.texts(), modes.everything()
    assert (len(told.sources), {len(strings) for strings in told.strings}) == (6, {modes.N_TEXTS})
    assert len(told.texts) == len(told.labels) == 6 * modes.N_TEXTS
    spans = told.texts.spans or ()
    assert all(sum(map(len, spans[modes.N_TEXTS * source : modes.N_TEXTS * (source + 1)])) > 0 for source in range(6))
    assert len(everything) == 6 * modes.N_TEXTS
    for source, number in ((0, 0), (1, 3), (5, modes.N_TEXTS - 1)):
        alone, among = told.text(source, number), everything[source * modes.N_TEXTS + number]
        assert "".join(alone.tokens) == told.strings[source][number]
        assert replace(alone, probability=()) == replace(among, probability=())
        assert alone.probability == pytest.approx(among.probability, rel=1e-3)


def test_spans_cover_their_own_words_in_every_text() -> None:
    told, everything = modes.texts(), modes.everything()
    for place in range(0, len(everything), 37):
        text = everything[place]
        string, spans = told.texts.strings[place], (told.texts.spans or ())[place]
        ends = np.cumsum([len(token) for token in text.tokens])
        for token, kind, end in zip(text.tokens, text.kinds, ends, strict=True):
            touched = [span.kind for span in spans if span.start < end and span.end > end - len(token)]
            assert kind in (touched or [""]), string


def by_hand(text: ScoredText, place: int, share: float) -> float:
    """Of one text alone: how often the token followed the two before it."""
    before = text.tokens[max(0, place - 2) : place]
    after = [text.tokens[other] for other in range(len(text.tokens)) if text.tokens[max(0, other - 2) : other] == before]
    return (1 - share) * text.probability[place] + share * after.count(text.tokens[place]) / len(after)


def test_what_is_learned_by_heart_is_the_mixture_of_model_and_memory() -> None:
    text = ScoredText(("a", "b", "a", "b", "c"), (0.1, 0.2, 0.3, 0.4, 0.5), (0.0,) * 5, (False,) * 5, ("",) * 5, "")
    (found,) = modes.memorised_share([text], 0.25)
    assert found.probability == pytest.approx([by_hand(text, place, 0.25) for place in range(5)], abs=1e-15)
    (none,) = modes.memorised_share([text], 0.0)
    assert none == text
    once = ScoredText(("x", "y"), (1e-6, 1e-6), (0.0, 0.0), (False, False), ("NAME", ""), "")
    assert modes.memorised_share([once], 1.0)[0].probability == (1.0, 1.0)


def test_the_score_of_personal_tokens_falls_as_they_are_learned() -> None:
    """The feedback: mean score falls and the nominal budget rises with every share, and few are left above the threshold."""
    everything, dials = modes.everything(), Dials()
    tokens = gathered(everything)
    means, recalls = [], []
    for share in (0.0, 0.25, 0.5, 0.9, 0.99):
        score = modes.ranked(modes.memorised_share(everything, share), dials)
        means.append(score[tokens.is_private].mean())
        recalls.append(recall(score, tokens.is_private, dials.threshold))
    assert (np.diff(means) < 0).all()
    assert recalls[-1] < 0.5 * recalls[0]


def test_the_pattern_is_better_than_chance_and_the_score_does_not_tell_look_alikes() -> None:
    everything = modes.everything()
    tokens = gathered(everything)
    assert 0.5 < scores(tokens.has_pattern.astype(np.float64), tokens).auroc[EVERY] < 1

    score = modes.ranked(everything, Dials())
    assert len(score) == len(tokens.kinds) == sum(len(text.tokens) for text in everything)
    assert score[tokens.is_stop].tolist() == [0.0] * int(tokens.is_stop.sum())
    assert scores(score, tokens).auroc[AGAINST] < 0.75, "surprise does not tell them from look-alikes"
    assert warning(everything, Dials()) is None or "nominal" in str(warning(everything, Dials()))
