"""CSLR's claimed noise under every reading: all rows by all three accountants, and what any sum of events must obey."""

import math
from dataclasses import replace
from typing import Literal

import dp_accounting as dp
import pytest

from dpcl_core.privacy import cslr_accounting
from dpcl_core.privacy.accounting import Pld, Unaccountable, noise_multiplier, subsampled_gaussian
from dpcl_core.privacy.cslr_accounting import Costs, Reading, costs
from tests.support.asserting import refuses
from tests.support.planned import charged
from tests.support.tiers import quick

DELTA = 1e-5
SIGMAS = (3.20, 1.45, 0.95)  # claimed: 1, 4, 8
# Eq. 9 / RDP by dp_accounting / PLD, for each sigma; None where that accountant has no answer or was not asked.
TABLE: dict[str, tuple[tuple[float | None, float | None, float | None], ...]] = {
    "round": ((1.98, 1.59, 1.37), (6.05, 5.30, 4.79), (10.60, 9.64, 8.85)),
    "round-1": ((0.73, 0.54, 0.46), (2.29, 1.85, 1.61), (4.18, 3.56, 3.17)),
    "task-1": ((1.20, 0.95, 0.84), (3.57, 3.02, 2.62), (6.88, 6.13, 5.19)),
    "task": ((3.10, 2.61, 2.25), (10.4, 9.4, 8.2), (20.1, 18.7, 16.7)),
    "task-all": ((6.78, 6.16, 5.68), (17.2, 16.2, 15.0), (29.2, 27.9, 26.1)),
    "printed": ((19.8, 18.6, 16.3), (94.4, 93.0, 62.3), (439, 438, 149)),
    "rounds-250": ((22.0, 20.7, 18.7), (115, 114, 72.5), (546, 545, 175)),
    "rounds-300": ((24.2, 22.8, 20.9), (136, 134, 82.2), (653, 651, 200)),
    "rounds-350": ((26.3, 24.9, 23.1), (157, 155, 91.7), (760, 758, 225)),
    "one": ((7.7, 6.9, 6.4), (22.2, 20.8, 18.9), (45.1, 43.7, 37.7)),
    "list": ((31.8, 30.4, 28.0), (332, 330, 126), (1303, 1302, 321)),
    "modes": ((70, 69, 52), (1053, 1052, 271), (3076, 3074, 696)),
    "plain": ((90, 88, 76), (392, 391, 273), (898, 897, 569)),
    "fixed": ((None, 134, None), (None, 1190, None), (None, 3213, None)),
    "head": ((None, None, 19.3), (None, None, 77.7), (None, None, 190)),
}


def _of(reading: Reading, which: str = "pld") -> float:
    found: float | None = getattr(costs(reading), which)
    assert found is not None
    return found


@pytest.mark.parametrize("name", quick(3, TABLE))
def test_every_reading_costs_what_three_accountants_say(name: str) -> None:
    row = cslr_accounting.rows()[name]
    for sigma, numbers in zip(SIGMAS, TABLE[name], strict=True):
        found = costs(row.of(sigma))
        for which, value in zip(("eq_9", "rdp", "pld"), numbers, strict=True):
            if value is not None:
                assert getattr(found, which) == pytest.approx(value, rel=0.01), (sigma, which)
    if name == "fixed":
        assert (costs(row.of(1.45)).eq_9, costs(row.of(1.45)).pld) == (None, None)


@pytest.mark.parametrize("name", ["printed", "round-1", "task-all"])
def test_the_divergences_are_the_librarys(name: str) -> None:
    reading = cslr_accounting.rows()[name].of(1.45)
    accountant = dp.rdp.RdpAccountant(cslr_accounting.ORDERS)
    for event in reading.events():
        accountant.compose(event)
    assert costs(reading).rdp == pytest.approx(float(accountant.get_epsilon(DELTA)), rel=1e-9)


def test_no_row_of_the_table_is_missing_and_other_benchmarks_have_their_own() -> None:
    assert set(cslr_accounting.rows()) - {"whole"} == set(TABLE)
    other = cslr_accounting.rows(n_clients=50, n_tasks=5)
    assert other["printed"].of(1.45) == replace(Reading(1.45), n_rounds=250, n_clients=50)
    assert "rounds-200" in other
    assert "rounds-250" not in other
    assert other["modes"].reading.sensitivity == pytest.approx(math.sqrt(5))
    assert [name for name, row in other.items() if row.is_as_printed] == ["printed"]


def test_the_printed_algorithm_whole_is_one_gaussian_of_all_that_a_client_sends() -> None:
    """Eight statistics, each of K entries clipped on its own: 1/z² adds up over them."""
    row = cslr_accounting.rows()["whole"]
    for sigma in SIGMAS:
        assert _of(row.of(sigma)) == pytest.approx(_of(Reading(sigma / math.sqrt(2 * 4 * 4), n_statistics=1)), rel=1e-6)


def test_no_reading_with_a_whole_round_keeps_to_the_claims() -> None:
    for claimed, sigma in cslr_accounting.TABLE_5.items():
        assert _of(Reading(sigma, n_rounds=1), "least") > claimed


@pytest.mark.parametrize(("sigma", "by_eq_9", "by_pld"), [(3.20, 2, 5), (1.45, 5, 10), (0.95, 6, 11)])
def test_how_many_releases_of_one_statistic_fit_under_the_claims(sigma: float, by_eq_9: int, by_pld: int) -> None:
    claimed = {value: name for name, value in cslr_accounting.TABLE_5.items()}[sigma]

    def fits(n_rounds: int, which: str) -> bool:
        return _of(Reading(sigma, n_rounds=n_rounds, n_statistics=1), which) <= claimed

    for which, most in (("eq_9", by_eq_9), ("pld", by_pld)):
        assert fits(most, which)
        assert not fits(most + 1, which)


def test_amplifying_each_statistic_on_its_own_promises_too_little() -> None:
    apart = Reading(1.45, one_coin=False)
    assert _of(apart, "eq_9") == pytest.approx(54.2, rel=0.01)
    assert _of(apart) < _of(Reading(1.45))


def test_four_statistics_of_a_round_are_one_event_of_half_the_multiplier() -> None:
    (event,) = Reading(1.45, n_rounds=1).events()
    assert event == dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.3, dp.GaussianDpEvent(1.45 / 2)), 1)
    assert Reading(1.45).joint_multiplier == pytest.approx(0.725)
    assert Reading(1.45, with_list=True).joint_multiplier == pytest.approx(1.45 / math.sqrt(8))
    assert Reading(1.45, head_multiplier=1.45).joint_multiplier == pytest.approx(1.45 / math.sqrt(5))
    assert Reading(1.45, sensitivity=2.0).joint_multiplier == pytest.approx(1.45 / 4)


@pytest.mark.parametrize(
    ("multiplier", "rate", "rounds", "epsilon"),
    [(0.725, 0.3, 200, 62.3), (1.6, 0.3, 200, 16.3), (0.475, 0.3, 200, 149), (2.163, 1, 4, 4.00), (4.709, 0.3, 200, 4.00)],
)
def test_joint_multipliers(multiplier: float, rate: float, rounds: int, epsilon: float) -> None:
    found = costs(Reading(multiplier, rounds, n_statistics=1, sample_rate=rate, delta=DELTA))
    assert found.pld == pytest.approx(epsilon, rel=0.01)
    assert None not in (found.rdp, found.eq_9)
    assert found.pld <= found.rdp <= found.eq_9  # type: ignore[operator]


def test_epsilon_falls_with_noise_and_grows_with_rounds_statistics_rate_and_sensitivity() -> None:
    base = Reading(2.0, n_rounds=50)
    more = {"noise_multiplier": 1.9, "n_rounds": 60, "n_statistics": 5, "sample_rate": 0.35, "sensitivity": 1.1,
            "with_list": True, "head_multiplier": 2.0, "adjacency": "replace"}  # fmt: skip
    for name, value in more.items():
        assert _of(replace(base, **{name: value})) > _of(base), name  # type: ignore[arg-type]


@pytest.mark.parametrize(("epsilon", "replay", "head", "summed"), [(1, 14.07, 18.76, 1.33), (4, 3.99, 5.56, 5.28),
                                                                   (8, 2.16, 3.18, 10.45)])  # fmt: skip
def test_a_private_head_beside_the_replay_is_composed_and_not_added(
    epsilon: float, replay: float, head: float, summed: float
) -> None:
    events = [subsampled_gaussian(replay, 1, 4), subsampled_gaussian(head, 0.3, 200)]
    parts = [Pld().epsilon([event], DELTA, "add-remove") for event in events]
    total = Pld().epsilon(events, DELTA, "add-remove")
    assert total == pytest.approx(epsilon, rel=0.01)
    assert (parts[0], sum(parts)) == (pytest.approx(epsilon / 2, rel=0.01), pytest.approx(summed, rel=0.01))
    assert max(parts) <= total < sum(parts)


def test_replay_and_head_of_the_same_round_are_one_gaussian() -> None:
    assert costs(Reading(6.66, n_statistics=1, head_multiplier=6.66)).pld == pytest.approx(4.0, rel=0.01)
    assert costs(Reading(13.3, head_multiplier=6.66)).pld == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize(("rounds", "multiplier"), quick(2, [(20, 1.77), (50, 2.52), (100, 3.41), (200, 4.71)]))
def test_fewer_rounds_of_the_head_need_less_noise(rounds: int, multiplier: float) -> None:
    assert noise_multiplier(4, DELTA, 0.3, rounds, "add-remove") == pytest.approx(multiplier, rel=0.01)


# By rounds and share of clients: joint multipliers for epsilon 1, 4 and 8, by PLD and, where there are three more, by Renyi
# divergences; clients and modes play no part in it.
NEEDED = {
    (4, 1.0): (7.46, 2.16, 1.20, 8.09, 2.32, 1.28), (4, 0.3): (2.81, 1.11, 0.73, 3.08, 1.22, 0.79),
    (200, 0.3): (15.94, 4.71, 2.69, 17.28, 5.05, 2.86), (5, 1.0): (8.35, 2.42, 1.34), (250, 0.3): (17.79, 5.24, 2.97),
    (6, 1.0): (9.14, 2.65, 1.47), (300, 0.3): (19.47, 5.72, 3.24), (7, 1.0): (9.87, 2.86, 1.59),
    (350, 0.3): (21.02, 6.16, 3.48),
}  # fmt: skip


def test_the_noise_that_would_be_needed() -> None:
    for (rounds, rate), multipliers in NEEDED.items():
        reading = Reading(1.0, rounds, n_statistics=1, sampling="poisson" if rate < 1 else "everyone", sample_rate=rate)
        for place, multiplier in enumerate(multipliers):
            found = costs(replace(reading, noise_multiplier=multiplier))  # multipliers are rounded to 0.01
            epsilon = (1, 4, 8)[place % 3]
            assert (found.pld if place < 3 else found.rdp) == pytest.approx(epsilon, rel=0.015), (reading, multiplier)


@pytest.mark.parametrize("which", ["pld", "rdp"])
def test_the_search_for_noise_ends_at_the_budget_and_rounds_up(which: Literal["pld", "rdp"]) -> None:
    reading = Reading(1.0, 4, sampling="everyone")
    found = cslr_accounting.multiplier_for(4, reading, which)
    assert _of(replace(reading, noise_multiplier=found), which) <= 4
    assert _of(replace(reading, noise_multiplier=found - 2e-4), which) > 4
    with pytest.raises(Unaccountable, match="poisson under replace"):
        cslr_accounting.multiplier_for(4, Reading(1.0, adjacency="replace"), "rdp")


def test_four_statistics_need_twice_the_joint_noise_and_modes_sqrt_k_times_that() -> None:
    joint = cslr_accounting.multiplier_for(4, Reading(1.0, n_statistics=1))
    assert cslr_accounting.multiplier_for(4, Reading(1.0)) == pytest.approx(2 * joint, rel=1e-3)
    assert cslr_accounting.multiplier_for(4, Reading(1.0)) == pytest.approx(9.42, rel=0.01)
    assert cslr_accounting.multiplier_for(4, Reading(1.0, sensitivity=2.0)) == pytest.approx(18.8, rel=0.01)


@pytest.mark.parametrize(
    ("count", "numbers"),
    quick(1, [
        (1, ((2.6, 5.7), (6.4, 15.0), (10.7, 26.1))),
        (4, ((5.7, 13.2), (15.0, 38.0), (26.1, 70.6))),
        (60, ((31.7, 87.3), (102, 319), (202, 670))),
        (81, ((39.1, 110), (129, 413), (259, 880))),
    ]),
)
def test_what_a_clients_own_list_tells_a_server_that_sees_it(count: int, numbers: tuple[tuple[float, float], ...]) -> None:
    for sigma, (removed, replaced) in zip(SIGMAS, numbers, strict=True):
        assert cslr_accounting.per_client(Reading(sigma), count).pld == pytest.approx(removed, rel=0.01, abs=0.051)
        found = cslr_accounting.per_client(Reading(sigma, adjacency="replace"), count)
        assert found.pld == pytest.approx(replaced, rel=0.01, abs=0.051)
        assert found.least == found.pld
    assert cslr_accounting.participations(200, 0.3) == (60, 81)


def test_the_claim_carries_what_its_noise_really_costs_and_its_scope() -> None:
    claim = cslr_accounting.nominal_claim(4.0, Reading(cslr_accounting.printed_multiplier(4.0)))
    assert claim.epsilon == 4.0
    assert "for the replay release alone" in claim.source
    assert claim.numbers["computed ε by PLD"] == pytest.approx(62.3, rel=0.01)
    assert claim.numbers["computed ε by Eq. 9"] == pytest.approx(94.4, rel=0.01)
    assert claim.numbers["computed ε of one round alone, by PLD"] == pytest.approx(4.79, rel=0.01)
    refuses(r"privacy\.epsilons = 2: must be 1, 4 or 8", cslr_accounting.printed_multiplier, 2.0)


def test_a_clean_channel_leaves_no_bound() -> None:
    ledger = charged(*Reading(4.709, n_rounds=200).events(), recurrence="every")
    assert math.isfinite(ledger.epsilon())
    ledger.spend(dp.NonPrivateDpEvent(), task=0, what="head")
    assert ledger.epsilon() == math.inf
    assert Pld().epsilon([dp.NonPrivateDpEvent()], DELTA, "add-remove") == math.inf


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_fixed_samples_are_counted_under_replace_alone_and_coins_have_no_divergence_there(adjacency: str) -> None:
    fixed = costs(Reading(1.45, sampling="fixed", adjacency=adjacency))  # type: ignore[arg-type]
    coins = costs(Reading(1.45, adjacency=adjacency))  # type: ignore[arg-type]
    if adjacency == "replace":
        assert (fixed.rdp is None, fixed.pld is None) == (False, True)
        assert (coins.rdp is None, coins.pld is None) == (True, False)
    else:
        assert fixed == Costs(None, None, None)
        assert fixed.least is None
        assert coins.least == coins.pld


@pytest.mark.parametrize(
    ("field", "value"),
    [("noise_multiplier", 0.0), ("noise_multiplier", math.nan), ("n_rounds", 0), ("n_statistics", 0), ("sample_rate", 0.0),
     ("sample_rate", 1.5), ("delta", 0.0), ("sensitivity", -1.0), ("head_multiplier", 0.0), ("n_clients", 0)],
)  # fmt: skip
def test_impossible_numbers_are_refused_by_name(field: str, value: float) -> None:
    refuses(field, costs, replace(Reading(1.45), **{field: value}))  # type: ignore[arg-type]
