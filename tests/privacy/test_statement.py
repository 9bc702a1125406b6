"""The one statement: its numbers, what it says for each setting, and the words it never uses."""

import math
import re
from dataclasses import replace
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest

from dpcl_core import checks
from dpcl_core.events import AuditNote, Claim, Guarantee
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.methods.references import forecast
from dpcl_core.privacy import accounting, gaussian, noise_forecast, statement, text_mechanisms
from dpcl_core.privacy.guarantee import guarantee, who
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.noise_forecast import NoiseForecast, noise_to_signal, note
from dpcl_core.privacy.statement import guarantee_words, is_nominal, kind, odds, odds_bound, spent, standing, ways_out
from dpcl_core.spec import Cell
from tests.support.planned import charged


def given(ledger: Ledger, epsilon: float = 1.0, unit: str = "example", n_people: int = 999, **more: Any) -> Guarantee:
    """What is said of a run with this ledger at its one budget, with the usual settings."""
    spec = checks.parse({"privacy": {"epsilons": [epsilon]}, "seeds": [0]})
    return guarantee(ledger, spec, Cell(epsilon, 0), unit=unit, n_people=n_people, **{"n_tasks": 1, **more})


def made(epsilon: float = 1.0, n_people: int = 1347, recurrence: str = "once", **raw: object) -> Guarantee:
    spec = checks.parse({"privacy": {"epsilons": [epsilon], "noise": raw.pop("noise", "release")}, "seeds": [0], **raw})
    event = dp.GaussianDpEvent(gaussian.sigma(epsilon, 1e-5)) if math.isfinite(epsilon) else dp.NonPrivateDpEvent()
    ledger = charged(*[event] * 5, recurrence=recurrence, delta=spec.privacy.delta)
    for task in range(5) if spec.labels == "data" else ():
        ledger.spend(dp.NonPrivateDpEvent(), task=task, what="labels")
    return guarantee(ledger, spec, Cell(epsilon, 0), unit="example", n_people=n_people, n_tasks=5)


def all_words(told: Guarantee) -> str:
    said = guarantee_words(told)
    return " ".join(
        [said.headline, *said.covered, *said.not_covered, *said.assumptions, *said.caveats, said.odds, said.banner or "",
         told.composition, told.scope, told.unit, told.adjacency]
    )  # fmt: skip


def test_a_guarantee_names_everything_it_must() -> None:
    told = made()
    assert (told.epsilon, told.delta, told.claimed_epsilon) == (pytest.approx(1.0, rel=2e-5), 1e-5, 1.0)
    assert told.unit == "one training example"
    assert "add-remove" in told.adjacency
    assert "parallel" in told.composition
    assert told.parts["task 3"] == pytest.approx(1.0, rel=2e-5)
    assert told.parts["the same person in every task"] == pytest.approx(2.442, abs=1e-3)
    assert any("public" in text for text in told.assumptions)
    assert any("tuning" in text for text in told.not_covered)


def test_the_public_network_is_named_for_what_it_is() -> None:
    assert any(text.endswith("so is the network that computes the features") for text in made().assumptions)
    texts = made(method="lm-seqft", labels="prior", data={"dataset": "pii-synthetic", "backbone": "lm-tiny"})
    assert any("so is the language model before it is adapted" in text for text in texts.assumptions)


def test_only_public_data_are_called_a_simulation() -> None:
    simulated = "this is a simulation"
    assert any(simulated in text for text in made().caveats)
    assert not any(simulated in text for text in made(data={"dataset": "own:cats"}).caveats)


def test_a_stream_dealt_by_lot_says_what_it_takes_as_given_instead_of_claiming_a_public_rule() -> None:
    ledger = charged(dp.GaussianDpEvent(4.0))
    by_rule, by_lot = (given(ledger, n_tasks=2, assumed=one).assumptions for one in ((), ("the lot is assumed given",)))
    assert "the lot is assumed given" in by_lot
    assert [text for text in by_rule if text not in by_lot] == [
        "which task an example belongs to depends on that example alone, through a public rule"
    ]


@pytest.mark.parametrize("cap", [{}, {"train_per_class": 50}, {"train_per_source": 50}])
def test_a_subset_by_class_or_by_source_is_said_to_be_a_public_coin(cap: dict[str, int]) -> None:
    said = made(data={"dataset": "har-wisdm", **cap}).assumptions
    assert any("in the subset is a public coin" in one for one in said) == bool(cap)


def test_tuning_on_private_data_is_the_first_thing_not_covered() -> None:
    told = made(tuned="private")
    assert told.not_covered[0] == "settings were tuned on the private data; that is not accounted"
    assert any("the bound is not the whole story" in text for text in told.caveats)
    assert not any("tuned on public data" in text for text in told.assumptions)
    assert told.epsilon == made().epsilon  # the ledger knows nothing of it: only the words can tell


def test_tuning_on_public_data_is_an_assumption_by_declaration_about_who_is_in_it() -> None:
    told = made(tuned="public")
    (said,) = [one for one in told.assumptions if "tuned on public data, in which none of the protected people is" in one]
    assert "declares" in said
    assert "nothing checks" in said
    assert "not the whole story" not in all_words(told)
    assert "tuned" not in all_words(made())


def test_recurring_people_are_told_the_sum() -> None:
    told = made(recurrence="every")
    assert "sequential" in told.composition
    assert told.epsilon == pytest.approx(2.442, abs=1e-3)


def test_the_headline_states_the_factor_and_delta() -> None:
    said = guarantee_words(made())
    assert said.is_private
    assert said.banner is None
    assert "at most 2.72 times likelier" in said.headline
    assert "1e-05" in said.headline


@pytest.mark.parametrize("labels", ["prior", "prior-const"])
def test_public_labels_are_named_as_an_assumption(labels: str) -> None:
    assert ("oracle prior" in " ".join(made(labels=labels).assumptions)) == (labels == "prior")


def test_labels_from_the_data_are_not_dp_whatever_epsilon_was_asked_for() -> None:
    told = made(labels="data")
    said = guarantee_words(told)
    assert (told.epsilon, told.claimed_epsilon) == (math.inf, 1.0)
    assert not said.is_private
    assert said.banner.startswith("Not DP.")
    assert "labels" in said.banner
    assert said.covered == ()
    assert (standing(told), standing(made()), standing(made(math.inf, labels="data"))) == ("none", "bound", "bound")
    assert [methods.standing(checks.parse({"labels": setting})) for setting in ("data", "prior")] == ["none", "bound"]


def test_no_noise_is_not_dp() -> None:
    said = guarantee_words(made(math.inf))
    assert not said.is_private
    assert "No noise" in said.banner


def test_a_recorded_seed_is_said_to_void_the_bound() -> None:
    assert "seed" in guarantee_words(made(noise="seeded")).banner
    assert guarantee_words(made()).banner is None


SHARED = "One noise vector is shared by all records. Subtracting two noisy records removes it."


def nominal(epsilon: float = 0.5, audit: AuditNote | None = None) -> Guarantee:
    """What a run of a method is told whose epsilon is a publication's claim: its ledger has a step without a bound."""
    claim = Claim(epsilon, "Theorem 2 of Lai et al.", {"ε1": 0.25, "ε2": epsilon - 0.25}, {"λ": 500.0})
    return given(charged(dp.NonPrivateDpEvent(), claimed=claim), epsilon, audit=audit, notes=(SHARED,))


AUDIT = AuditNote(6.98, 0.95, 3000, "differencing the memory", "knows one record")


def test_a_claim_is_never_said_without_not_verified_and_what_the_audit_proved() -> None:
    said = guarantee_words(nominal(audit=AUDIT))
    assert not said.is_private
    assert said.banner == "Claimed ε = 0.5 (Theorem 2 of Lai et al., not verified). No bound: an audit proved at least 6.9."
    assert said.headline.startswith("Claimed ε = 0.5 (Theorem 2 of Lai et al., not verified). Not differentially private")
    assert "ε ≥ 6.9 at 95 % confidence, 3,000 releases a side (differencing the memory)" in said.audited
    assert "The attacker knows one record." in said.audited
    assert (said.odds, said.caveats[0]) == ("No bound: an attacker may be right every time.", SHARED)
    assert said.covered == ()


def test_a_claim_without_an_audit_is_no_bound_either() -> None:
    said = guarantee_words(nominal())
    assert said.banner == "Claimed ε = 0.5 (Theorem 2 of Lai et al., not verified). No bound: no ledger bears it out."
    assert said.audited is None


def test_what_stands_behind_an_epsilon_is_told_apart() -> None:
    assert (kind(made()), kind(nominal(audit=AUDIT))) == ("proved", "nominal")
    assert kind(made(math.inf)) == kind(made(labels="data")) == kind(nominal(math.inf)) == "none"
    assert is_nominal(nominal())
    assert not is_nominal(made())
    assert str(guarantee_words(nominal(math.inf)).banner).startswith("Not DP. No noise was added")


def test_small_data_and_large_epsilon_get_their_notes() -> None:
    assert any("Only 40" in text for text in made(n_people=40).caveats)
    assert not any("Only" in text for text in made().caveats)
    assert any("odds protect little" in text for text in made(16.0).caveats)
    assert not any("odds protect little" in text for text in made(1.0).caveats)


@pytest.mark.parametrize(("epsilon", "percent"), [(0.1, 52.5), (0.5, 62.2), (1, 73.1), (2, 88.1), (4, 98.2), (8, 99.97)])
def test_worst_case_odds(epsilon: float, percent: float) -> None:
    assert 100 * odds_bound(epsilon, 0) == pytest.approx(percent, abs=0.05)
    assert odds_bound(epsilon, 1e-3) > odds_bound(epsilon, 0)


def test_printed_odds_are_rounded_up() -> None:
    assert "at most 73.11 %" in odds(1.0, 0.0)  # 73.1059
    assert "at most 50 %" in odds(0.0, 0.0)


def test_odds_of_any_size() -> None:
    assert (odds_bound(0, 0), odds_bound(1e6, 1e-5), odds_bound(math.inf, 1e-5)) == (0.5, 1.0, 1.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.9999999, "1"), (1.00000001, "1"), (1.001, "1.01"), (3.61859, "3.62"), (35.61735, "35.7"), (0.1, "0.1"),
     (0.12301, "0.124"), (545.57, "546"), (12345.6, "12,346"), (1_000_054.5, "1,000,055"), (math.inf, "∞"), (0.0, "0"),
     (99.99, "100")],
)  # fmt: skip
def test_numbers_are_shown_with_three_digits_or_all_before_the_point_rounded_up(value: float, text: str) -> None:
    assert statement.shown_number(value) == text


@pytest.mark.parametrize("labels", ["data", "prior", "prior-const"])
@pytest.mark.parametrize("epsilon", [0.1, 8.0, math.inf])
@pytest.mark.parametrize("noise", ["release", "seeded"])
def test_forbidden_words_never_appear(labels: str, epsilon: float, noise: str) -> None:
    text = all_words(made(epsilon, labels=labels, noise=noise)).lower()
    assert not re.search(r"anonym|\bsafe\b|guaranteed|zero risk|encrypt|\d %? of 3 %", text)
    assert not re.search(r"\bprivate\b", text.replace("differentially private", ""))


def test_a_nominal_budget_of_tokens_never_goes_without_its_words() -> None:
    claim = text_mechanisms.nominal_claim(1.0, 10.0, 1e-6, 64, 3)
    told = given(charged(dp.NonPrivateDpEvent(), delta=1e-6, claimed=claim), 10.0, "text", 1500, n_tasks=6)
    said = guarantee_words(told)
    assert is_nominal(told)
    for sentence in (said.headline, said.banner, said.claimed):
        assert "ε = 10 (Zhan et al., Theorem 1; nominal, no guarantee, not verified)" in sentence
        assert sentence.count("ε = 10") == 1


def two_ways_out(head: dp.DpEvent | None, claimed: Claim | None = None) -> Guarantee:
    release = dp.GaussianDpEvent(gaussian.sigma(2.0, 1e-5))
    ledger = charged(release, channels={REPLAY: release}, recurrence="every", claimed=claimed)
    if head is not None:
        ledger.spend(head, task=0, what="head", channels={HEAD: head})
    return given(ledger, 4.0, "user", 20)


def test_replay_head_and_total_stand_in_the_headline_and_in_every_banner() -> None:
    private, clean = two_ways_out(dp.GaussianDpEvent(gaussian.sigma(3.0, 1e-5))), two_ways_out(dp.NonPrivateDpEvent())
    assert statement.by_channel(private.parts) == {
        "replay release": pytest.approx(2.0, rel=1e-4),
        "head": pytest.approx(3.0, rel=1e-4),
        "replay and head together": private.epsilon,
    }
    assert 3.0 < private.epsilon < 5.0
    assert list(ways_out(private).values()) == list(statement.by_channel(private.parts).values())
    assert list(ways_out(private)) == ["replay", "head", "total"]
    assert guarantee_words(private).headline.endswith(
        f"Replay ε = 2, head ε = 3, total ε = {statement.shown_number(private.epsilon)}."
    )
    assert guarantee_words(clean).banner.endswith("Replay ε = 2, head ε = ∞, total ε = ∞.")  # type: ignore[union-attr]
    said = guarantee_words(two_ways_out(dp.NonPrivateDpEvent(), Claim(4.0, "a paper", {}, {}, accounted=62.3)))
    assert "Claimed ε = 4 (a paper, not verified)" in said.headline
    assert "The same noise accounted, if its other premises held: ε = 62.3." in said.headline
    for text in (said.headline, said.banner or ""):
        assert text.endswith("Replay ε = 2, head ε = ∞, total ε = ∞.")


def test_a_head_made_from_the_replay_alone_costs_nothing_more() -> None:
    assert statement.three_numbers(two_ways_out(None).parts) == "Replay ε = 2, head ε = 0, total ε = 2."


def test_the_line_under_a_figure_tells_the_ways_out_apart() -> None:
    one, other = two_ways_out(None), two_ways_out(dp.NonPrivateDpEvent())
    assert spent({4.0: one}) == "replay ε = 2, head ε = 0, total ε = 2"
    assert spent({4.0: one, 8.0: other}).endswith("; asked for 8: replay ε = 2, head ε = ∞, total ε = ∞")
    assert spent({1.0: made()}) == ""


def test_a_method_with_one_way_out_speaks_of_one_number() -> None:
    assert (statement.three_numbers(made().parts), ways_out(made())) == ("", {})
    assert "head" not in guarantee_words(made()).headline


@pytest.mark.parametrize(
    ("unit", "whole", "neighbours", "rule", "counted"),
    [
        ("example", "one training example", "one example is present", "which task an example belongs", "training examples"),
        ("text", "one training text", "one text is present", "which task a text belongs", "training texts"),
        ("user", "one client, with everything that it holds", "one client's contribution", "which task a client", "clients"),
    ],
)
def test_the_unit_is_named_as_it_is(unit: str, whole: str, neighbours: str, rule: str, counted: str) -> None:
    told = given(charged(dp.GaussianDpEvent(5.0)), unit=unit, n_people=20, n_tasks=3, limits=("of the dataset",))
    assert (told.unit, neighbours in told.adjacency) == (whole, True)
    assert "zero-out" in told.adjacency  # a number beside which somebody is left out is public: it stays
    assert any(text.startswith("how long the work took") for text in told.not_covered)
    assert who(told.unit) == ("client" if unit == "user" else "person")
    assert any(sentence.startswith(rule) for sentence in told.assumptions)
    assert f"the number of {counted} is public, and so is the network that computes the features" in told.assumptions
    assert any(sentence.startswith(f"Only 20 {counted}:") for sentence in told.caveats)
    assert "of the dataset" in told.not_covered
    assert any(text.startswith("a person about whom several clients") for text in told.not_covered) is (unit == "user")
    said = guarantee_words(told)
    assert "  " not in " ".join([said.headline, *said.covered, *said.not_covered, *said.assumptions, *said.caveats])


def of_ledger(*trainings: tuple[int, tuple[int, ...]], recurrence: str = "once", rows: int = 1) -> Guarantee:
    """The guarantee of trainings after these tasks on the data of those."""
    ledger = Ledger(1e-5, "add-remove", recurrence, rows_per_unit=rows)  # type: ignore[arg-type]
    for task, people_of in trainings:
        ledger.spend(dp.GaussianDpEvent(9.0), task=task, what="a training", people_of=people_of)
    return given(ledger, unit="person" if rows > 1 else "example", n_tasks=2)


AGAIN, ONCE = ((0, (0,)), (1, (0, 1))), ((1, (0, 1)),)


@pytest.mark.parametrize("rows", [1, 3])
def test_data_that_are_read_again_are_said_to_add_up_whether_a_person_has_one_row_or_several(rows: int) -> None:
    told, noun = of_ledger(*AGAIN, rows=rows), "row" if rows > 1 else "example"
    assert f"every {noun} is in one task, but releases after later tasks read it again: its uses add up" in told.composition
    assert "parallel" not in told.composition
    assert told.epsilon == told.parts["people of task 1"] > told.parts["people of task 2"]
    assert told.scope == "every classifier released along the stream, one after each task"


@pytest.mark.parametrize(
    ("recurrence", "says"),
    [
        ("once", "one training reads the examples of all tasks together: each is used in it alone"),
        ("every", "one training reads all tasks together: an example may be in every task, and counts once for each"),
    ],
)
def test_one_training_on_all_tasks_is_said_to_be_one_release(recurrence: str, says: str) -> None:
    told = of_ledger(*ONCE, recurrence=recurrence)
    assert told.composition.startswith(says)
    assert told.scope == "the only classifier that is released, after the last task"
    assert "add up" not in told.composition


def test_a_list_of_labels_before_it_makes_no_second_training() -> None:
    spec = checks.parse({"privacy": {"epsilons": [1.0]}, "seeds": [0], "labels": "dp-learned"})
    ledger = Ledger(1e-5, "add-remove", "once")
    ledger.spend(accounting.LabelListDpEvent(0.1, 1e-7), task=0, what="list of labels")
    ledger.spend(dp.GaussianDpEvent(9.0), task=1, what="a training", people_of=(0, 1))
    told = guarantee(ledger, spec, Cell(1.0, 0), unit="example", n_people=999, n_tasks=2)
    assert told.scope == "the only classifier that is released, after the last task, with its list of labels"


@pytest.mark.parametrize(
    ("method", "params", "hides"),
    [
        ("lm-seqft", {"mechanism": "fn"}, False), ("lm-seqft", {"mechanism": "fn", "label_share": 0.2}, True),
        ("lm-er", {"mechanism": "fn"}, False), ("pecl", {"mode": "local"}, False),
        ("pecl", {"mode": "local", "label_share": 0.2}, True),
    ],
)  # fmt: skip
def test_noisy_copies_of_texts_are_counted_by_whoever_sees_them(method: str, params: dict[str, object], hides: bool) -> None:
    """Exchanging a text of one task for one of another changes how many copies each task has."""
    card = methods.card(method)
    said = card.assumes(card.params(**params))
    assert said[0].startswith("how many texts a task has is public, and so is which task a text is in")
    assert ("only which of its task's labels it is stays hidden" in said[1]) == hides
    assert ("the label of every text is declared public" in said[1]) != hides
    assert card.assumes(card.params()) == (), "steps on random batches hide who is in a task"


# The ratio of noise to signal against simulated lengths, what it says of known runs, and when it stays silent.


DIGITS = PublicSizes(n_people=1347, n_tasks=5, n_classes=10)


def forecasts(
    epsilons: list[float], facts: PublicSizes = DIGITS, classes: float = 2, **raw: object
) -> tuple[NoiseForecast, ...]:
    spec = checks.parse({"privacy": {"epsilons": epsilons}, **raw})
    return forecast(spec, n_features=64, classes_per_task=classes, facts=facts)


def test_the_ratio_is_that_of_the_lengths_for_sums() -> None:
    """Five noises on 4,000 coordinates against 50 equal unit vectors; a length has a relative spread of 1/sqrt(2 K)."""
    generator = np.random.default_rng(0)
    noise = sum(3.0 * generator.standard_normal(4000) for _ in range(5))
    assert noise_to_signal(3.0, 4000, 50, uses=5) == pytest.approx(np.linalg.norm(noise) / 50, rel=5 / math.sqrt(8000))


def test_the_ratio_is_that_of_the_lengths_for_training() -> None:
    """200 steps, 30 people in a tenth of the batches each, all gradients one unit vector, multiplier 2."""
    generator, rate, steps = np.random.default_rng(1), 0.1, 200
    signal_length = generator.binomial(30, rate, steps).sum()
    noise = 2.0 * generator.standard_normal((steps, 2000)).sum(axis=0)
    found = noise_to_signal(2.0, 2000, 30, sample_rate=rate, n_steps=steps)
    assert found == pytest.approx(np.linalg.norm(noise) / signal_length, rel=0.1)
    assert noise_to_signal(2.0 * math.sqrt(9), 5, 30, n_steps=9) == pytest.approx(noise_to_signal(2.0, 5, 30))


def test_without_sampling_training_and_one_sum_have_the_same_ratio() -> None:
    trained = noise_to_signal(accounting.noise_multiplier(0.2, 1e-5, 1.0, 40, "add-remove"), 64, 134.7, n_steps=40)
    assert trained == pytest.approx(noise_to_signal(gaussian.sigma(0.2, 1e-5), 64, 134.7), rel=1e-4)


def test_the_digits_are_warned_of_where_they_were_seen_to_fail() -> None:
    """Measured: one list, epsilon 0.1 leaves 16 %, 0.2 leaves 19 %, 0.5 leaves 48 % and 1 leaves 76 % of ten digits."""
    found = forecasts([1.0, 0.1, 0.2, 0.5, math.inf])
    assert [one.epsilon for one in found] == [0.1, 0.2]
    assert found[0].ratio == pytest.approx(gaussian.sigma(0.1, 1e-5) * math.sqrt(5 * 64) / 134.7)
    assert found[0].ratio > noise_forecast.NEAR_CHANCE > found[1].ratio > noise_forecast.COSTLY
    assert [one.epsilon for one in forecasts([0.1, 0.2, 0.5], labels="prior")] == [0.1]


def test_trained_heads_are_warned_of_and_larger_batches_offered() -> None:
    head = {"method": "peft-ensemble", "labels": "prior-const"}
    found = forecasts([0.02, 1.0, 8.0], **head)
    assert ([one.epsilon for one in found], found[0].ratio) == ([0.02], pytest.approx(16.5, rel=0.02))
    assert found[0].larger_batches == pytest.approx(7.8, rel=0.02)
    assert "larger batches (7.8 times with everyone in each)" in found[0].sentence
    assert "larger batches" not in forecasts([0.02], **head, params={"sample_rate": 1.0})[0].sentence
    assert forecasts([0.02], **head, params={"adapter": "film"}) == (), "not measured, so nothing is said"


def test_a_training_on_one_task_has_only_the_classes_that_are_there() -> None:
    """All ten classes in each of five tasks: a fifth of each class, or all of it where the same people come again."""
    head = {"method": "peft-ensemble", "params": {"sample_rate": 1.0}}
    (each_once,) = forecasts([0.02], **head)
    (a_fifth,) = forecasts([0.02], classes=10, **head)
    (again,) = forecasts([0.02], replace(DIGITS, recurrence="every"), classes=10, **head)
    assert a_fifth.ratio == pytest.approx(5 * each_once.ratio)
    assert again.ratio == pytest.approx(each_once.ratio)
    (whole,) = forecasts([0.02], classes=10, method="non-cl", params={"sample_rate": 1.0})
    assert whole.ratio == pytest.approx(each_once.ratio)


def test_the_note_says_what_to_expect_and_what_would_help() -> None:
    said = note(forecasts([0.1, 0.2])) or ""
    assert "ε = 0.1 needs noise 4.1 times the longest signal there can be: accuracy will be near chance." in said
    assert "with 550 a class instead of 135 noise and signal are even" in said
    assert "a public list per task" in said
    assert "2.2 times at ε = 0.2" in said
    assert "public list" not in (note(forecasts([0.05], labels="prior")) or "public list")
    assert note(forecasts([8.0])) is None


def test_as_many_people_as_the_note_asks_for_make_it_even() -> None:
    (short,) = forecasts([0.1])
    people = math.ceil(short.ratio * short.class_size) * 10
    (even,) = forecasts([0.1], replace(DIGITS, n_people=people - 20))
    assert even.ratio == pytest.approx(1.0, abs=0.01)
    assert forecasts([0.1], replace(DIGITS, n_people=people + 20)) == ()
