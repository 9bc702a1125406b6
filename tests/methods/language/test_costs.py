"""What PeCL and its baselines cost whom, by closed forms and our notes, and that nobody pays more than is said."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest

from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import Texts
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicSizes
from dpcl_core.methods.language import pecl
from dpcl_core.methods.language.baseline import BaselineParams, Noises, Plan, check_baseline
from dpcl_core.methods.language.er import ErParams
from dpcl_core.methods.language.ewc import EwcParams
from dpcl_core.methods.language.gem import GemParams
from dpcl_core.methods.language.mtl import MtlParams
from dpcl_core.methods.language.olora import OloraParams
from dpcl_core.methods.language.pecl import PeclParams
from dpcl_core.methods.language.pecl_published import NO_GUARANTEE, PublishedParams
from dpcl_core.privacy import accounting, gaussian
from dpcl_core.privacy.accounting import Pld
from dpcl_core.privacy.ledger import Ledger
from dpcl_core.scenarios.catalog import SourceIncremental
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import PrivacySpec, Recurrence, RunSpec
from tests.methods.pecl_small import spec, texts, trained
from tests.support.tiers import quick

DELTA = 1e-6
ALL = (BaselineParams(), ErParams(), EwcParams(), GemParams(), OloraParams(), MtlParams())
FACTS = PublicSizes(n_people=18_000, n_tasks=6, n_classes=30)  # 3,000 texts in each of six tasks
EVERY = PublicSizes(n_people=3_000, n_tasks=6, n_classes=30, recurrence="every")
PRIVACY, REPLACED = PrivacySpec(epsilons=(1.0, 8.0), delta=DELTA), PrivacySpec(delta=DELTA, adjacency="replace")
SMALL = PublicSizes(n_people=750, n_tasks=3, n_classes=9)
SEQFT = BaselineParams(budget="per-task")
EVERYONE = PublicSizes(n_people=24, n_tasks=3, n_classes=4, recurrence="every")


def total(params: BaselineParams, multiplier: float, facts: PublicSizes = FACTS) -> float:
    """Epsilon of the whole stream with one multiplier for everything."""
    return Plan(params, PRIVACY, facts).ledger(Noises(multiplier, multiplier)).epsilon()


@pytest.mark.parametrize(("epsilon", "multiplier"), [(1.0, 1.136), (8.0, 0.550)])
def test_the_noise_of_one_task(epsilon: float, multiplier: float) -> None:
    """Check 17: 3,000 texts, batches of 32, 282 steps."""
    plan = Plan(SEQFT, PRIVACY, FACTS)
    assert plan.n_steps == 282
    assert plan.noises(epsilon).steps == pytest.approx(multiplier, abs=0.01)


@pytest.mark.parametrize(
    ("params", "at_one", "at_eight"),
    quick(2, [
        (SEQFT, 1.0, 8.0), (ErParams(buffer_share=0.05), 31.95, 146.5), (ErParams(), 14.05, 68.45),
        (ErParams(buffer_share=1.0), 1.47, 10.46), (EwcParams(), 1.019, 8.004), (EwcParams(fisher="gradients"), 1.0, 8.0),
        (OloraParams(), 1.0, 8.0), (GemParams(), 702.5, 2655.8)
    ]),
)
def test_totals_with_the_noise_of_one_task(params: BaselineParams, at_one: float, at_eight: float) -> None:
    """Check 18 and the table of section 8.2: the same noise multiplier in all tasks, everything added up."""
    assert total(params, 1.1364) == pytest.approx(at_one, rel=2e-3)
    assert total(params, 0.5501) == pytest.approx(at_eight, rel=2e-3)


def test_fisher_information_adds_a_fiftieth_and_low_rank_pairs_add_nothing() -> None:
    assert total(EwcParams(), 1.1364) - total(SEQFT, 1.1364) == pytest.approx(0.019, abs=1e-3)
    assert total(OloraParams(), 1.1364) == total(SEQFT, 1.1364)


def test_references_of_gem_are_plain_gaussians_in_sequence() -> None:
    """Five later tasks of 282 steps: their closed form alone is nearly all of the total."""
    references = gaussian.epsilon(1.1364 / math.sqrt(5 * 282), DELTA)
    assert references < total(GemParams(), 1.1364) < references + 1


@pytest.mark.parametrize(
    ("share", "epsilon", "multiplier"), quick(1, [(0.1, 1.0, 9.305), (0.1, 8.0, 1.624), (0.05, 8.0, 2.960)])
)
def test_noise_with_which_replay_stays_within_the_total(share: float, epsilon: float, multiplier: float) -> None:
    plan = Plan(ErParams(buffer_share=share), PRIVACY, FACTS)
    found = plan.noises(epsilon)
    assert found.steps == pytest.approx(multiplier, abs=0.01)
    assert plan.ledger(found).epsilon() <= epsilon


@pytest.mark.parametrize(
    ("params", "facts"),
    quick(2, [
        *((params, SMALL) for params in ALL),
        *((params, PublicSizes(250, 3, 9, "every")) for params in (EwcParams(), GemParams())),
    ]),
)
def test_a_budget_for_the_total_is_kept_and_used_up(params: BaselineParams, facts: PublicSizes) -> None:
    plan = Plan(params, PRIVACY, facts)
    found = plan.ledger(plan.noises(8.0))
    assert 7.9 < found.epsilon() <= 8.0
    assert found.epsilon() == max(found.by_people().values())  # nobody pays more than those it was searched for


@pytest.mark.parametrize("params", [ErParams(budget="per-task"), GemParams(budget="per-task")])
def test_a_budget_for_each_task_shows_a_larger_total(params: BaselineParams) -> None:
    plan = Plan(params, PRIVACY, SMALL)
    found = plan.noises(8.0)
    assert found.steps == plan.noises(8.0).steps
    assert plan.ledger(found).epsilon() > 16.0


def test_replay_and_own_texts_share_one_noise() -> None:
    """Someone in every task has a text of each in one sum: that costs more than two sums with a noise each."""
    params = ErParams(buffer_share=1.0, replay_size=100, batch_size=100)
    found = Plan(params, PRIVACY, PublicSizes(100, 2, 4, "every")).ledger(Noises(30.0))
    # three steps of the first task with one text, three of the second with two texts, none of them drawn by lot
    assert found.epsilon() == pytest.approx(gaussian.epsilon(30 / math.sqrt(3 * 1 + 3 * 4), DELTA), rel=1e-3)


def test_a_task_charges_those_whose_texts_it_reads() -> None:
    def people_of(params: BaselineParams, task: int) -> list[tuple[int, ...]]:
        return [charge.people_of for charge in params.charges(Plan(params, PRIVACY, FACTS), Noises(1.0, 1.0), task)]

    assert people_of(GemParams(), 2) == [(2,), (0,), (1,)]
    assert people_of(ErParams(), 2) == [(0, 1, 2)]
    assert len(people_of(EwcParams(), 5)) == 1  # nothing comes after it: what held it would be measured for nothing
    assert [people_of(MtlParams(), task) for task in range(6)] == [*[[]] * 5, [(0, 1, 2, 3, 4, 5)]]


@pytest.mark.parametrize("params", ALL)
def test_without_noise_there_is_no_bound(params: BaselineParams) -> None:
    plan = Plan(params, PRIVACY, FACTS)
    found = plan.ledger(plan.noises(math.inf))
    assert found.epsilon() == math.inf
    assert {type(entry.event) for entry in found.entries} == {dp.NonPrivateDpEvent}


@pytest.mark.parametrize("facts", [FACTS, EVERY], ids=["once", "every"])
@pytest.mark.parametrize("label_share", [0.0, 0.25])
def test_noisy_copies_of_texts_stay_within_the_total(facts: PublicSizes, label_share: float) -> None:
    plan = Plan(BaselineParams(mechanism="fn", label_share=label_share), REPLACED, facts)
    for epsilon in (1.0, 8.0):
        found = plan.copies_ledger(plan.copy_noise(epsilon)).epsilon()
        assert found <= epsilon * (1 + 1e-6)
        assert label_share or found > 0.999 * epsilon


def test_the_noise_of_copies_is_that_of_all_tokens_of_a_text() -> None:
    """Sixty-four tokens: sigma over the clip 67.6 for 1, 10.45 for 8; for one token 8.449 and 1.306."""
    for per, one, eight in (("text", 67.6, 10.45), ("token", 8.449, 1.306)):
        plan = Plan(BaselineParams(mechanism="fn", budget_per=per), REPLACED, FACTS)
        ratios = [plan.copy_noise(epsilon).ratio for epsilon in (1.0, 8.0)]
        assert ratios == [pytest.approx(one, rel=2e-3), pytest.approx(eight, rel=2e-3)]
    per_token = plan.copies_ledger(plan.copy_noise(1.0))
    assert per_token.epsilon() > 8.0  # a whole text costs far more than one of its tokens


def test_what_the_form_says() -> None:
    said = Plan(GemParams(budget="per-task"), PRIVACY, FACTS).sentence(1.0)
    assert re.findall(r"[\d.]+\d", said) == ["1.1364", "703"]
    assert Plan(BaselineParams(mechanism="fn"), REPLACED, FACTS).sentence(1.0).endswith("ε 1 for a text of 64 tokens.")


def test_accounting_under_replace_costs_more() -> None:
    found = Plan(ErParams(), REPLACED, SMALL).ledger(Noises(4.0))
    assert found.epsilon() > total(ErParams(), 4.0, SMALL)
    assert found.if_in_every_task() > found.epsilon()


def test_the_accountant_of_the_table_is_the_librarys_own() -> None:
    """Replay written out by hand: own steps, then five tasks at the kept texts' chance."""
    step = dp.GaussianDpEvent(1.1364)
    events = [dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(32 / 3000, step), 282)]
    events += [dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(32 / (300 * past), step), 282) for past in range(1, 6)]
    assert total(ErParams(), 1.1364) == pytest.approx(Pld().epsilon(events, DELTA, "add-remove"), rel=1e-9)


@pytest.mark.parametrize(
    ("params", "privacy", "field"),
    [
        (BaselineParams(mechanism="fn"), PRIVACY, "privacy.adjacency"),
        (BaselineParams(mechanism="fn", loss="full"), PrivacySpec(adjacency="replace"), "params.loss"),
    ],
)
def test_settings_that_no_bound_holds_for_are_refused(params: BaselineParams, privacy: PrivacySpec, field: str) -> None:
    spec = RunSpec(method="lm-seqft", params=params, privacy=privacy, scenario=SourceIncremental())
    with pytest.raises(BadInput) as refused:
        check_baseline(spec, FACTS)
    assert refused.value.field == field


# PeCL, published and repaired: what its ledger adds up to, and what is refused before anything is spent.


def spent(*given: Any, **params: Any) -> Ledger:
    return trained(spec(*given, **params))[1]


def test_published_has_no_bound_and_says_what_is_claimed() -> None:
    ledger = spent("pecl-published", 10.0, epochs=3)
    assert math.isinf(ledger.epsilon())
    assert ledger.claimed.epsilon == 10
    assert sorted(ledger.claimed.terms.values()) == [1, 10]
    assert ledger.claimed.numbers["epochs"] == 3
    assert methods.card("pecl-published").guarantee == "nominal"
    assert methods.card("pecl-published").notes(PublishedParams())[0] == NO_GUARANTEE
    without = spent("pecl-published", math.inf)
    assert without.claimed is None
    assert math.isinf(without.epsilon())


@pytest.mark.parametrize("label_share", [0.0, 0.25])
@pytest.mark.parametrize("per", ["text", "token"])
def test_local_budgets(label_share: float, per: str) -> None:
    """A text's tokens and its label together stay within epsilon; a token's budget costs the text more, which is shown."""
    ledger = spent(epsilon=4.0, adjacency="replace", mode="local", label_share=label_share, budget_per=per, epochs=1)
    assert len(ledger.entries) == (2 if label_share == 0 else 4)
    total = ledger.epsilon()
    assert total <= 4.0 if per == "text" else total > 8
    if label_share == 0 and per == "text":
        assert total > 3.95


def test_central_budget_is_for_steps_and_mean_score_together() -> None:
    ledger = spent(epsilon=4.0)
    assert [entry.what.partition(",")[0] for entry in ledger.entries] == ["DP-SGD", "mean score of the texts"] * 2
    assert 3.9 < ledger.epsilon() <= 4.0
    without = spent(epsilon=4.0, stability=False)
    assert len(without.entries) == 2
    assert without.epsilon() <= 4.0
    public = spent(epsilon=4.0, mean_score="public")
    assert [entry.what.partition(",")[0] for entry in public.entries] == ["DP-SGD"] * 2
    assert math.isinf(spent(epsilon=math.inf).epsilon())


def test_a_budget_for_people_in_every_task_covers_all_of_them() -> None:
    given = spec(epsilon=4.0)
    noise = pecl.noises(given.params, given.privacy, EVERYONE, 4.0)
    life = list(pecl.events(given.params, given.privacy, 24.0, noise.multiplier)) * 3
    assert 3.9 < accounting.Pld().epsilon(life, 1e-3, "add-remove") <= 4.0
    per_task = pecl.noises(replace(given.params, budget="per-task"), given.privacy, EVERYONE, 4.0)
    assert per_task.multiplier < noise.multiplier


def test_local_copies_of_people_in_every_task_and_their_labels_keep_one_budget() -> None:
    given = spec(epsilon=4.0, adjacency="replace", mode="local", label_share=0.25)
    noise = pecl.noises(given.params, given.privacy, EVERYONE, 4.0)
    assert 3 * noise.labels == pytest.approx(1.0)
    copy = dp.GaussianDpEvent(noise.ratio / math.sqrt(given.params.length))
    life = [copy, accounting.LocalDpEvent(noise.labels)] * 3
    assert 3.0 < accounting.Pld().epsilon(life, given.privacy.delta, "replace") <= 4.0


def test_noise_multipliers_of_the_card() -> None:
    """Check 17: 3,000 texts, batches of 32, 282 steps, delta 1e-6."""
    for epsilon, expected in ((1.0, 1.136), (8.0, 0.550)):
        found = accounting.noise_multiplier(epsilon, 1e-6, 32 / 3000, 282, "add-remove")
        assert found == pytest.approx(expected, abs=0.01)
    assert PeclParams(epochs=3, batch_size=32).n_steps(3000) == 282


def test_an_empty_task_takes_its_noisy_steps_and_is_written_down() -> None:
    empty = Task(0, "news", texts(0, 0), texts(2, 0), (0, 1))
    for given in (spec(), spec(adjacency="replace", mode="local"), spec("pecl-published", 10.0)):
        assert trained(given, [empty])[1].entries


@pytest.mark.parametrize(("settings", "field"), [
    ({"adjacency": "add-remove", "mode": "local"}, "privacy.adjacency"),
    ({"adjacency": "replace", "mode": "local", "loss": "full"}, "params.loss"),
    ({"adjacency": "replace", "mode": "local", "unlearning": "hinge"}, "params.unlearning"),
    ({"adjacency": "replace", "mode": "local", "mean_score": "released"}, "params.mean_score"),
    ({"adjacency": "replace", "mode": "local", "score_model": "current"}, "params.score_model"),
    ({"label_share": 0.1}, "params.label_share"),
    ({"lambda_min": 20}, "params.lambda_min"),
    ({"method": "pecl-published", "epsilon": 10.0, "eps_lower": 11}, "params.eps_lower"),
])  # fmt: skip
def test_settings_that_void_the_guarantee_or_make_no_sense_are_refused(settings: dict[str, object], field: str) -> None:
    given = spec(**settings)  # type: ignore[arg-type]
    with pytest.raises(BadInput) as caught:
        methods.card(given.method).refuses(given, PublicSizes(100, 2, 4))
    assert caught.value.field == field


@pytest.mark.parametrize(("adjacency", "recurrence"), [("add-remove", "once"), ("replace", "once"), ("add-remove", "every")])
def test_mean_scores_that_cost_the_whole_budget_are_refused_before_the_start(adjacency: str, recurrence: Recurrence) -> None:
    """Just where no noise on the steps would keep the budget: held to the search for that noise itself."""
    facts = PublicSizes(120, 3, 4, recurrence)

    def given(std: float) -> RunSpec:
        return spec(epsilon=1.0, adjacency=adjacency, mean_score_std=std)

    def is_refused(std: float) -> bool:
        try:
            methods.card("pecl").refuses(given(std), facts)
        except BadInput as error:
            return error.field == "params.mean_score_std"
        return False

    low, high = 1e-3, 10.0
    assert is_refused(low)
    assert not is_refused(high)
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if is_refused(middle) else (low, middle)
    with pytest.raises(BadInput, match=r"epsilon = 1\.0: must be larger"):
        pecl.noises(given(0.99 * low).params, given(low).privacy, facts, 1.0)
    assert pecl.noises(given(1.05 * high).params, given(high).privacy, facts, 1.0).multiplier > 0


def test_a_list_of_nominal_budgets_is_refused() -> None:
    given = spec("pecl-published", 10.0)
    several = replace(given, privacy=replace(given.privacy, epsilons=(1.0, 10.0)))
    with pytest.raises(BadInput, match="must be one number"):
        methods.card("pecl-published").refuses(several, PublicSizes(100, 2, 4))


def test_texts_too_long_for_the_model_are_refused() -> None:
    long = plain_language.read(Texts(["word " * 300]), "lm-tiny", 260)
    task = Task(0, "news", Examples(long, np.array([0])), texts(1, 0), (0, 1))
    with pytest.raises(BadInput, match=r"params\.length"):
        trained(spec(length=260), [task])
