"""The one statement: its numbers, what it says for each setting, and the words it never uses."""

from __future__ import annotations

import math
import re

import dp_accounting as dp
import pytest

from dpcl_core import checks
from dpcl_core.events import AuditNote, Claim, Guarantee
from dpcl_core.methods import catalog as methods
from dpcl_core.privacy import accounting, gaussian, text_mechanisms
from dpcl_core.privacy.guarantee import guarantee, who
from dpcl_core.privacy.ledger import HEAD, REPLAY, Ledger
from dpcl_core.privacy.statement import (
    by_channel,
    guarantee_words,
    is_nominal,
    kind,
    odds,
    odds_bound,
    shown_number,
    spent,
    standing,
    three_numbers,
    ways_out,
)
from dpcl_core.spec import Cell


def made(epsilon: float = 1.0, n_people: int = 1347, recurrence: str = "once", **raw: object) -> Guarantee:
    spec = checks.parse({"privacy": {"epsilons": [epsilon], "noise": raw.pop("noise", "release")}, "seeds": [0], **raw})
    ledger = Ledger(spec.privacy.delta, "add-remove", recurrence)  # type: ignore[arg-type]
    for task in range(5):
        if spec.labels == "data":
            ledger.spend(dp.NonPrivateDpEvent(), task=task, what="labels")
        event = dp.GaussianDpEvent(gaussian.sigma(epsilon, 1e-5)) if math.isfinite(epsilon) else dp.NonPrivateDpEvent()
        ledger.spend(event, task=task, what="sums")
    return guarantee(ledger, spec, Cell(epsilon, 0), unit="example", n_people=n_people, n_tasks=5)


def all_words(given: Guarantee) -> str:
    said = guarantee_words(given)
    return " ".join(
        [said.headline, *said.covered, *said.not_covered, *said.assumptions, *said.caveats, said.odds, said.banner or "",
         given.composition, given.scope, given.unit, given.adjacency]
    )  # fmt: skip


def test_a_guarantee_names_everything_it_must() -> None:
    given = made()
    assert given.epsilon == pytest.approx(1.0, rel=2e-5)
    assert given.delta == 1e-5
    assert given.claimed_epsilon == 1.0
    assert given.unit == "one training example"
    assert "add-remove" in given.adjacency
    assert "parallel" in given.composition
    assert given.parts["task 3"] == pytest.approx(1.0, rel=2e-5)
    assert given.parts["the same person in every task"] == pytest.approx(2.442, abs=1e-3)
    assert any("public" in text for text in given.assumptions)
    assert any("tuning" in text for text in given.not_covered)


def test_the_public_network_is_named_for_what_it_is() -> None:
    assert any(text.endswith("so is the network that computes the features") for text in made().assumptions)
    texts = made(method="lm-seqft", labels="prior", data={"dataset": "pii-synthetic", "backbone": "lm-tiny"})
    assert any("so is the language model before it is adapted" in text for text in texts.assumptions)


def test_only_public_data_are_called_a_simulation() -> None:
    simulated = "this is a simulation"
    assert any(simulated in text for text in made().caveats)
    assert not any(simulated in text for text in made(data={"dataset": "own:cats"}).caveats)


def test_a_stream_dealt_by_lot_says_what_it_takes_as_given_instead_of_claiming_a_public_rule() -> None:
    spec = checks.parse({"privacy": {"epsilons": [1.0]}, "seeds": [0]})
    ledger = Ledger(1e-5, "add-remove", "once")
    ledger.spend(dp.GaussianDpEvent(4.0), task=0, what="sums")

    def assumptions(*assumed: str) -> tuple[str, ...]:
        cell = Cell(1.0, 0)
        return guarantee(ledger, spec, cell, unit="example", n_people=99, n_tasks=2, assumed=assumed).assumptions

    by_rule, by_lot = assumptions(), assumptions("the lot is assumed given")
    assert "the lot is assumed given" in by_lot
    assert [text for text in by_rule if text not in by_lot] == [
        "which task an example belongs to depends on that example alone, through a public rule"
    ]


@pytest.mark.parametrize("cap", [{}, {"train_per_class": 50}, {"train_per_source": 50}])
def test_a_subset_by_class_or_by_source_is_said_to_be_a_public_coin(cap: dict[str, int]) -> None:
    said = made(data={"dataset": "har-wisdm", **cap}).assumptions
    assert any("in the subset is a public coin" in one for one in said) == bool(cap)


def test_tuning_on_private_data_is_the_first_thing_not_covered() -> None:
    given = made(tuned="private")
    assert given.not_covered[0] == "settings were tuned on the private data; that is not accounted"
    assert any("the bound is not the whole story" in text for text in given.caveats)
    assert not any("tuned on public data" in text for text in given.assumptions)
    assert given.epsilon == made().epsilon  # the ledger knows nothing of it: only the words can tell


def test_tuning_on_public_data_is_an_assumption_by_declaration_about_who_is_in_it() -> None:
    given = made(tuned="public")
    (said,) = [one for one in given.assumptions if "tuned on public data, in which none of the protected people is" in one]
    assert "declares" in said
    assert "nothing checks" in said
    assert "not the whole story" not in all_words(given)
    assert "tuned" not in all_words(made())


def test_recurring_people_are_told_the_sum() -> None:
    given = made(recurrence="every")
    assert "sequential" in given.composition
    assert given.epsilon == pytest.approx(2.442, abs=1e-3)


def test_the_headline_states_the_factor_and_delta() -> None:
    said = guarantee_words(made())
    assert said.is_private
    assert said.banner is None
    assert "at most 2.72 times likelier" in said.headline
    assert "1e-05" in said.headline


@pytest.mark.parametrize("labels", ["prior", "prior-const"])
def test_public_labels_are_named_as_an_assumption(labels: str) -> None:
    text = " ".join(made(labels=labels).assumptions)
    assert ("oracle prior" in text) == (labels == "prior")


def test_labels_from_the_data_are_not_dp_whatever_epsilon_was_asked_for() -> None:
    given = made(labels="data")
    said = guarantee_words(given)
    assert given.epsilon == math.inf
    assert given.claimed_epsilon == 1.0
    assert not said.is_private
    assert said.banner.startswith("Not DP.")
    assert "labels" in said.banner
    assert said.covered == ()
    assert (standing(given), standing(made()), standing(made(math.inf, labels="data"))) == ("none", "bound", "bound")
    assert [methods.standing(checks.parse({"labels": setting})) for setting in ("data", "prior")] == ["none", "bound"]


def test_no_noise_is_not_dp() -> None:
    said = guarantee_words(made(math.inf))
    assert not said.is_private
    assert "No noise" in said.banner


def test_a_recorded_seed_is_said_to_void_the_bound() -> None:
    said = guarantee_words(made(noise="seeded"))
    assert "seed" in said.banner
    assert guarantee_words(made()).banner is None


SHARED = "One noise vector is shared by all records. Subtracting two noisy records removes it."


def nominal(epsilon: float = 0.5, audit: AuditNote | None = None) -> Guarantee:
    """What a run of a method is told whose epsilon is a publication's claim: its ledger has a step without a bound."""
    spec = checks.parse({"privacy": {"epsilons": [epsilon]}, "seeds": [0]})
    ledger = Ledger(1e-5, "add-remove", "once")
    ledger.spend(dp.NonPrivateDpEvent(), task=0, what="steps")
    ledger.claimed = Claim(epsilon, "Theorem 2 of Lai et al.", {"ε1": 0.25, "ε2": epsilon - 0.25}, {"λ": 500.0})
    return guarantee(ledger, spec, Cell(epsilon, 0), unit="example", n_people=999, n_tasks=1, audit=audit, notes=(SHARED,))


AUDIT = AuditNote(6.98, 0.95, 3000, "differencing the memory", "knows one record")


def test_a_claim_is_never_said_without_not_verified_and_what_the_audit_proved() -> None:
    said = guarantee_words(nominal(audit=AUDIT))
    assert not said.is_private
    assert said.banner == "Claimed ε = 0.5 (Theorem 2 of Lai et al., not verified). No bound: an audit proved at least 6.9."
    assert said.headline.startswith("Claimed ε = 0.5 (Theorem 2 of Lai et al., not verified). Not differentially private")
    assert "ε ≥ 6.9 at 95 % confidence, 3,000 releases a side (differencing the memory)" in said.audited
    assert "The attacker knows one record." in said.audited
    assert said.odds == "No bound: an attacker may be right every time."
    assert said.caveats[0] == SHARED
    assert said.covered == ()


def test_a_claim_without_an_audit_is_no_bound_either() -> None:
    said = guarantee_words(nominal())
    assert said.banner == "Claimed ε = 0.5 (Theorem 2 of Lai et al., not verified). No bound: no ledger bears it out."
    assert said.audited is None


def test_what_stands_behind_an_epsilon_is_told_apart() -> None:
    assert kind(made()) == "proved"
    assert kind(nominal(audit=AUDIT)) == "nominal"
    assert kind(made(math.inf)) == kind(made(labels="data")) == kind(nominal(math.inf)) == "none"
    assert is_nominal(nominal())
    assert not is_nominal(made())
    assert str(guarantee_words(nominal(math.inf)).banner).startswith("Not DP. No noise was added")


def test_small_data_and_large_epsilon_get_their_notes() -> None:
    assert any("Only 40" in text for text in made(n_people=40).caveats)
    assert not any("Only" in text for text in made().caveats)
    assert any("odds protect little" in text for text in made(16.0).caveats)
    assert not any("odds protect little" in text for text in made(1.0).caveats)


@pytest.mark.parametrize(
    ("epsilon", "percent"), [(0.1, 52.5), (0.5, 62.2), (1, 73.1), (2, 88.1), (4, 98.2), (8, 99.97)]
)
def test_worst_case_odds(epsilon: float, percent: float) -> None:
    assert 100 * odds_bound(epsilon, 0) == pytest.approx(percent, abs=0.05)
    assert odds_bound(epsilon, 1e-3) > odds_bound(epsilon, 0)


def test_printed_odds_are_rounded_up() -> None:
    assert "at most 73.11 %" in odds(1.0, 0.0)  # 73.1059
    assert "at most 50 %" in odds(0.0, 0.0)


def test_odds_of_any_size() -> None:
    assert odds_bound(0, 0) == 0.5
    assert odds_bound(1e6, 1e-5) == 1.0
    assert odds_bound(math.inf, 1e-5) == 1.0


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.9999999, "1"), (1.00000001, "1"), (1.001, "1.01"), (3.61859, "3.62"), (35.61735, "35.7"), (0.1, "0.1"),
     (0.12301, "0.124"), (545.57, "546"), (12345.6, "12,346"), (1_000_054.5, "1,000,055"), (math.inf, "∞"), (0.0, "0"),
     (99.99, "100")],
)  # fmt: skip
def test_numbers_are_shown_with_three_digits_or_all_before_the_point_rounded_up(value: float, text: str) -> None:
    assert shown_number(value) == text


@pytest.mark.parametrize("labels", ["data", "prior", "prior-const"])
@pytest.mark.parametrize("epsilon", [0.1, 8.0, math.inf])
@pytest.mark.parametrize("noise", ["release", "seeded"])
def test_forbidden_words_never_appear(labels: str, epsilon: float, noise: str) -> None:
    text = all_words(made(epsilon, labels=labels, noise=noise)).lower()
    assert not re.search(r"anonym|\bsafe\b|guaranteed|zero risk|encrypt|\d %? of 3 %", text)
    assert not re.search(r"\bprivate\b", text.replace("differentially private", ""))


def test_a_nominal_budget_of_tokens_never_goes_without_its_words() -> None:
    spec = checks.parse({"privacy": {"epsilons": [10.0]}, "seeds": [0]})
    ledger = Ledger(1e-6, "add-remove", "once", claimed=text_mechanisms.nominal_claim(1.0, 10.0, 1e-6, 64, 3))
    ledger.spend(dp.NonPrivateDpEvent(), task=0, what="embeddings with noise that depends on the text")
    given = guarantee(ledger, spec, Cell(10.0, 0), unit="text", n_people=1500, n_tasks=6)
    said = guarantee_words(given)
    assert is_nominal(given)
    for sentence in (said.headline, said.banner, said.claimed):
        assert "ε = 10 (Zhan et al., Theorem 1; nominal, no guarantee, not verified)" in sentence
        assert sentence.count("ε = 10") == 1


def two_ways_out(head: dp.DpEvent | None, claimed: Claim | None = None) -> Guarantee:
    ledger = Ledger(1e-5, "add-remove", "every", claimed=claimed)
    release = dp.GaussianDpEvent(gaussian.sigma(2.0, 1e-5))
    ledger.spend(release, task=0, what="replay", channels={REPLAY: release})
    if head is not None:
        ledger.spend(head, task=0, what="head", channels={HEAD: head})
    spec = checks.parse({"privacy": {"epsilons": [4.0]}, "seeds": [0]})
    return guarantee(ledger, spec, Cell(4.0, 0), unit="user", n_people=20, n_tasks=1)


def test_replay_head_and_total_stand_in_the_headline_and_in_every_banner() -> None:
    private, clean = two_ways_out(dp.GaussianDpEvent(gaussian.sigma(3.0, 1e-5))), two_ways_out(dp.NonPrivateDpEvent())
    assert by_channel(private.parts) == {
        "replay release": pytest.approx(2.0, rel=1e-4),
        "head": pytest.approx(3.0, rel=1e-4),
        "replay and head together": private.epsilon,
    }
    assert 3.0 < private.epsilon < 5.0
    assert list(ways_out(private).values()) == list(by_channel(private.parts).values())
    assert list(ways_out(private)) == ["replay", "head", "total"]
    assert guarantee_words(private).headline.endswith(
        f"Replay ε = 2, head ε = 3, total ε = {shown_number(private.epsilon)}."
    )
    assert guarantee_words(clean).banner.endswith("Replay ε = 2, head ε = ∞, total ε = ∞.")  # type: ignore[union-attr]
    claimed = two_ways_out(dp.NonPrivateDpEvent(), Claim(4.0, "a paper", {}, {}, accounted=62.3))
    said = guarantee_words(claimed)
    assert "Claimed ε = 4 (a paper, not verified)" in said.headline
    assert "The same noise accounted, if its other premises held: ε = 62.3." in said.headline
    for text in (said.headline, said.banner or ""):
        assert text.endswith("Replay ε = 2, head ε = ∞, total ε = ∞.")


def test_a_head_made_from_the_replay_alone_costs_nothing_more() -> None:
    assert three_numbers(two_ways_out(None).parts) == "Replay ε = 2, head ε = 0, total ε = 2."


def test_the_line_under_a_figure_tells_the_ways_out_apart() -> None:
    one, other = two_ways_out(None), two_ways_out(dp.NonPrivateDpEvent())
    assert spent({4.0: one}) == "replay ε = 2, head ε = 0, total ε = 2"
    assert spent({4.0: one, 8.0: other}).endswith("; asked for 8: replay ε = 2, head ε = ∞, total ε = ∞")
    assert spent({1.0: made()}) == ""


def test_a_method_with_one_way_out_speaks_of_one_number() -> None:
    assert three_numbers(made().parts) == ""
    assert ways_out(made()) == {}
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
    ledger = Ledger(1e-5, "add-remove", "once")
    ledger.spend(dp.GaussianDpEvent(5.0), task=0, what="sums")
    spec = checks.parse({"privacy": {"epsilons": [1.0]}, "seeds": [0]})
    given = guarantee(ledger, spec, Cell(1.0, 0), unit=unit, n_people=20, n_tasks=3, limits=("of the dataset",))
    assert (given.unit, neighbours in given.adjacency) == (whole, True)
    assert "zero-out" in given.adjacency  # a number beside which somebody is left out is public: it stays
    assert any(text.startswith("how long the work took") for text in given.not_covered)
    assert who(given.unit) == ("client" if unit == "user" else "person")
    assert any(sentence.startswith(rule) for sentence in given.assumptions)
    assert f"the number of {counted} is public, and so is the network that computes the features" in given.assumptions
    assert any(sentence.startswith(f"Only 20 {counted}:") for sentence in given.caveats)
    assert "of the dataset" in given.not_covered
    assert any(text.startswith("a person about whom several clients") for text in given.not_covered) is (unit == "user")
    said = guarantee_words(given)
    assert "  " not in " ".join([said.headline, *said.covered, *said.not_covered, *said.assumptions, *said.caveats])


def of_ledger(*trainings: tuple[int, tuple[int, ...]], recurrence: str = "once", rows: int = 1) -> Guarantee:
    """The guarantee of trainings after these tasks on the data of those."""
    spec = checks.parse({"privacy": {"epsilons": [1.0]}, "seeds": [0]})
    ledger = Ledger(1e-5, "add-remove", recurrence, rows_per_unit=rows)  # type: ignore[arg-type]
    for task, people_of in trainings:
        ledger.spend(dp.GaussianDpEvent(9.0), task=task, what="a training", people_of=people_of)
    unit = "person" if rows > 1 else "example"
    return guarantee(ledger, spec, Cell(1.0, 0), unit=unit, n_people=999, n_tasks=2)


AGAIN, ONCE = ((0, (0,)), (1, (0, 1))), ((1, (0, 1)),)


@pytest.mark.parametrize("rows", [1, 3])
def test_data_that_are_read_again_are_said_to_add_up_whether_a_person_has_one_row_or_several(rows: int) -> None:
    given, noun = of_ledger(*AGAIN, rows=rows), "row" if rows > 1 else "example"
    assert f"every {noun} is in one task, but releases after later tasks read it again: its uses add up" in given.composition
    assert "parallel" not in given.composition
    assert given.epsilon == given.parts["people of task 1"] > given.parts["people of task 2"]
    assert given.scope == "every classifier released along the stream, one after each task"


@pytest.mark.parametrize(
    ("recurrence", "says"),
    [
        ("once", "one training reads the examples of all tasks together: each is used in it alone"),
        ("every", "one training reads all tasks together: an example may be in every task, and counts once for each"),
    ],
)
def test_one_training_on_all_tasks_is_said_to_be_one_release(recurrence: str, says: str) -> None:
    given = of_ledger(*ONCE, recurrence=recurrence)
    assert given.composition.startswith(says)
    assert given.scope == "the only classifier that is released, after the last task"
    assert "add up" not in given.composition


def test_a_list_of_labels_before_it_makes_no_second_training() -> None:
    spec = checks.parse({"privacy": {"epsilons": [1.0]}, "seeds": [0], "labels": "dp-learned"})
    ledger = Ledger(1e-5, "add-remove", "once")
    ledger.spend(accounting.LabelListDpEvent(0.1, 1e-7), task=0, what="list of labels")
    ledger.spend(dp.GaussianDpEvent(9.0), task=1, what="a training", people_of=(0, 1))
    given = guarantee(ledger, spec, Cell(1.0, 0), unit="example", n_people=999, n_tasks=2)
    assert given.scope == "the only classifier that is released, after the last task, with its list of labels"


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
