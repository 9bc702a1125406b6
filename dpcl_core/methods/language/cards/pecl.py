"""Card of PeCL repaired: central, with DP-SGD on the adapters, or local, with one noise on every token."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.language.cards import network_params, printed, sculpting_params
from dpcl_core.methods.language.cards.network_params import Budget, BudgetPer, LabelShare, Length, Positive
from dpcl_core.methods.language.cards.sculpting_params import SculptingParams
from dpcl_core.privacy import gaussian
from dpcl_core.spec import Params, RunSpec

Form = Literal["none", "hinge", "mask", "unlikelihood", "npo", "printed", "flipped"]
Unlearning = Literal["auto", Form]
LOCAL = "with params.mode = local"


class PeclParams(SculptingParams):
    """Settings of the repaired PeCL: where noise is added, and what the budget covers."""

    mode: Literal["central", "local"] = Field(
        "central",
        title="Trust",
        description="central: every text's gradient is clipped and noise is added to each step (DP-SGD). local: every "
        "token's embedding gets the same noise once, and whatever is made of the noisy copies is free.",
    )
    budget: Budget = Field(
        "total",
        title="Budget covers",
        description="What epsilon is for, where a person can be in every task. total: the whole stream. per-task: the "
        "training of one task; the total is then larger, and is shown.",
    )
    clip_norm: Length = Field(
        0.5, title="Clipping norm C",
        description="Longest gradient that one text contributes, under mode = central."
    )
    unlearning: Unlearning = Field(
        "auto",
        title="Unlearning loss",
        description="The term for sensitive tokens (Eq. 12). auto: hinge under mode = central, none under local. hinge: "
        "until a token is less likely than the public model has it. mask: they are left out of the loss. npo, unlikelihood: "
        "other bounded terms. printed, flipped: as published, and with the other sign. none: without.",
    )
    score2_scope: Literal["off", "public"] = Field(
        "off",
        title="How common a token is, from",
        description="The texts that tokens are counted in (Eq. 3), smoothed. off: none, a token's score is its surprise. "
        "public: public ones.",
    )
    mean_score: Literal["auto", "released", "public"] = Field(
        "auto",
        title="Mean score from",
        description="Mean score of a task, which says how strongly it is held (Eq. 11). released: of its texts, with noise. "
        "public: of public texts. auto: released under mode = central, public under local.",
    )
    mean_score_std: Positive = Field(
        0.1, le=10,
        title="Noise of the mean score",
        description="Standard deviation of the noise on a released mean score, which lies in [0, 1]."
    )
    budget_per: BudgetPer = Field(
        "text",
        title="Unit of protection",
        description="Under mode = local, what epsilon is for: a whole text, or one token in one place; the total is then "
        "larger, and is shown.",
    )
    label_share: LabelShare = Field(
        0.0,
        title="Share of ε for labels",
        description="Under mode = local, share of epsilon that hides the label by a random answer; 0: labels are public.",
    )

    @property
    def is_local(self) -> bool:
        return self.mode == "local"

    @property
    def is_total_asked(self) -> bool:
        return self.budget == "total" and (self.budget_per == "text" or not self.is_local)

    @property
    def releases_mean_score(self) -> bool:
        """Whether a task's mean score is a noisy release of its own texts, charged to the budget."""
        return self.stability and (self.mean_score == "released" or (self.mean_score == "auto" and not self.is_local))


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for settings under which no bound holds or can be stated, or that have no effect."""
    params = spec.params
    assert isinstance(params, PeclParams)
    sculpting_params.check(spec)
    if not params.is_local:
        if params.label_share > 0:
            allowed = "must be 0 with params.mode = central, which hides labels as it hides texts"
            raise BadInput("params.label_share", params.label_share, allowed)
        _refuse_dear_scores(spec, params, facts)
        return
    network_params.check_local(spec, LOCAL)
    if params.unlearning not in ("auto", "none"):
        allowed = f"must be none {LOCAL}: to unlearn a token it is read without noise"
        raise BadInput("params.unlearning", params.unlearning, allowed)
    if params.mean_score == "released":
        allowed = f"must be public {LOCAL}: scores are computed from texts without noise"
        raise BadInput("params.mean_score", params.mean_score, allowed)
    if params.score_model == "current":
        allowed = f"must be base {LOCAL}, where no text is scored while it is learned"
        raise BadInput("params.score_model", params.score_model, allowed)


def _refuse_dear_scores(spec: RunSpec, params: PeclParams, facts: PublicSizes) -> None:
    """Raises BadInput if the released mean scores alone use up the budget, so that no noise on the steps would suffice.

    A mean over n texts with noise of standard deviation s is one Gaussian of ratio s n, under either adjacency.
    """
    if not params.releases_mean_score:
        return
    n_uses = facts.n_tasks if facts.recurrence == "every" and params.budget == "total" else 1
    ratio = params.mean_score_std * facts.task_size / math.sqrt(n_uses)
    cost, smallest = gaussian.epsilon(ratio, spec.privacy.delta), min(spec.privacy.epsilons)
    if cost >= smallest:
        allowed = (
            f"must be larger for epsilon = {smallest:g}: the released mean scores alone cost {cost:.3g}; "
            "or take params.mean_score = public"
        )
        raise BadInput("params.mean_score_std", params.mean_score_std, allowed)


def assumed(params: Params) -> tuple[str, ...]:
    """Assumptions of the bound about tasks."""
    assert isinstance(params, PeclParams)
    return network_params.of_copies(params.label_share) if params.is_local else ()


def table_names(spec: RunSpec) -> tuple[str, str]:
    """Called a repair, with where its noise is."""
    assert isinstance(spec.params, PeclParams)
    return "Repair: PeCL", spec.params.mode


CARD = network_params.language_card(
    name="pecl",
    title="PeCL, repaired",
    summary="PeCL with a guarantee that holds. central: DP-SGD on a language model's adapters; a bounded hinge against the "
    "public model unlearns tokens, and the memory penalty uses released or public numbers only. local: the same noise on "
    "every token of a text, stop words included, drawn once.",
    source="A repair of Zhan et al., Forget What's Sensitive, Remember What Matters",
    params=PeclParams,
    matters=("alpha", "theta", "lambda_unlearn"),
    module="dpcl_core.methods.language.pecl",
    planned="dpcl_core.methods.language.pecl_costs:planned",
    refuses=check,
    derived=network_params.derived,
    notes=network_params.notes,
    assumes=assumed,
    printed=printed.REPAIRED,
    table_names=table_names,
    differences=network_params.differences,
)
