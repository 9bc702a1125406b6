"""What PeCL costs: what its ledger adds up to, published and repaired, and what is refused before anything is spent."""

from __future__ import annotations

import math
from dataclasses import replace

import dp_accounting as dp
import numpy as np
import pytest

from dpcl_core.backbones import plain_language
from dpcl_core.data.texts import Texts
from dpcl_core.errors import BadInput
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.common.method import PublicContext, PublicSizes
from dpcl_core.methods.language import pecl
from dpcl_core.methods.language.pecl import PeclParams
from dpcl_core.methods.language.pecl_published import NO_GUARANTEE, PublishedParams
from dpcl_core.privacy import accounting
from dpcl_core.scenarios.stream import Examples, Task
from dpcl_core.spec import Recurrence, RunSpec
from tests.methods.pecl_small import known, spec, stream, texts, trained


def test_published_has_no_bound_and_says_what_is_claimed() -> None:
    _, ledger, _ = trained(spec("pecl-published", 10.0, epochs=3))
    assert math.isinf(ledger.epsilon())
    assert ledger.claimed is not None
    assert ledger.claimed.epsilon == 10
    assert sorted(ledger.claimed.terms.values()) == [1, 10]
    assert ledger.claimed.numbers["epochs"] == 3
    assert methods.card("pecl-published").guarantee == "nominal"
    assert methods.card("pecl-published").notes(PublishedParams())[0] == NO_GUARANTEE
    _, without, _ = trained(spec("pecl-published", math.inf))
    assert without.claimed is None
    assert math.isinf(without.epsilon())


@pytest.mark.parametrize("label_share", [0.0, 0.25])
@pytest.mark.parametrize("per", ["text", "token"])
def test_local_budgets(label_share: float, per: str) -> None:
    """A text's tokens and its label together stay within epsilon; a token's budget costs the text more, which is shown."""
    given = spec(epsilon=4.0, adjacency="replace", mode="local", label_share=label_share, budget_per=per, epochs=1)
    _, ledger, _ = trained(given, stream(n_tasks=2))
    assert len(ledger.entries) == (2 if label_share == 0 else 4)
    total = ledger.epsilon()
    assert total <= 4.0 if per == "text" else total > 8
    if label_share == 0 and per == "text":
        assert total > 3.95


def test_central_budget_is_for_steps_and_mean_score_together() -> None:
    given = spec(epsilon=4.0)
    _, ledger, _ = trained(given)
    assert [entry.what.partition(",")[0] for entry in ledger.entries] == ["DP-SGD", "mean score of the texts"] * 2
    assert 3.9 < ledger.epsilon() <= 4.0
    _, without, _ = trained(spec(epsilon=4.0, stability=False))
    assert len(without.entries) == 2
    assert without.epsilon() <= 4.0
    _, public, _ = trained(spec(epsilon=4.0, mean_score="public"))
    assert [entry.what.partition(",")[0] for entry in public.entries] == ["DP-SGD"] * 2
    _, infinite, _ = trained(spec(epsilon=math.inf))
    assert math.isinf(infinite.epsilon())


def test_a_budget_for_people_in_every_task_covers_all_of_them() -> None:
    given, everyone = (
        spec(epsilon=4.0), PublicContext(n_inputs=0, n_classes=4, public=(), n_people=24, n_tasks=3, recurrence="every")
    )
    assert isinstance(given.params, PeclParams)
    noise = pecl.noises(given.params, given.privacy, everyone, 4.0)
    life = list(pecl.events(given.params, given.privacy, 24.0, noise.multiplier)) * 3
    assert 3.9 < accounting.Pld().epsilon(life, 1e-3, "add-remove") <= 4.0
    per_task = pecl.noises(replace(given.params, budget="per-task"), given.privacy, everyone, 4.0)
    assert per_task.multiplier < noise.multiplier


def test_local_copies_of_people_in_every_task_and_their_labels_keep_one_budget() -> None:
    given = spec(epsilon=4.0, adjacency="replace", mode="local", label_share=0.25)
    everyone = PublicContext(n_inputs=0, n_classes=4, public=(), n_people=24, n_tasks=3, recurrence="every")
    assert isinstance(given.params, PeclParams)
    noise = pecl.noises(given.params, given.privacy, everyone, 4.0)
    assert 3 * noise.labels == pytest.approx(1.0)
    copy = dp.GaussianDpEvent(noise.ratio / math.sqrt(given.params.length))
    life = [copy, accounting.LocalDpEvent(noise.labels)] * 3
    assert 3.0 < accounting.Pld().epsilon(life, given.privacy.delta, "replace") <= 4.0


def test_noise_multipliers_of_the_card() -> None:
    """Check 17: 3,000 texts, batches of 32, 282 steps, delta 1e-6."""
    for epsilon, expected in ((1.0, 1.136), (8.0, 0.550)):
        found = accounting.noise_multiplier(epsilon, 1e-6, 32 / 3000, 282, "add-remove")
        assert found == pytest.approx(expected, abs=0.01)
    params = PeclParams()
    assert (replace(params, epochs=3, batch_size=32)).n_steps(3000) == 282


def test_an_empty_task_takes_its_noisy_steps_and_is_written_down() -> None:
    empty = Task(0, "news", texts(0, 0), texts(2, 0), (0, 1))
    for given in (spec(), spec(adjacency="replace", mode="local"), spec("pecl-published", 10.0)):
        _, ledger, _ = trained(given, [empty])
        assert ledger.entries


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
    everyone = replace(known(n=40, n_tasks=3), recurrence=recurrence)
    facts = PublicSizes(everyone.n_people, 3, 4, recurrence)

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
        pecl.noises(given(0.99 * low).params, given(low).privacy, everyone, 1.0)
    assert pecl.noises(given(1.05 * high).params, given(high).privacy, everyone, 1.0).multiplier > 0


def test_a_list_of_nominal_budgets_is_refused() -> None:
    given = spec("pecl-published", 10.0)
    several = replace(given, privacy=replace(given.privacy, epsilons=(1.0, 10.0)))
    with pytest.raises(BadInput, match="must be one number"):
        methods.card("pecl-published").refuses(several, PublicSizes(100, 2, 4))


def test_texts_too_long_for_the_model_are_refused() -> None:
    given = spec(length=260)
    long = plain_language.read(Texts(["word " * 300]), "lm-tiny", 260)
    task = Task(0, "news", Examples(long, np.array([0])), texts(1, 0), (0, 1))
    with pytest.raises(BadInput, match=r"params\.length"):
        trained(given, [task])
