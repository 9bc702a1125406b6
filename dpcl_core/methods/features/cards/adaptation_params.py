"""Settings shared by all methods trained with DP-SGD on a frozen network, and the checks on them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal, get_args

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.card import MethodCard
from dpcl_core.methods.common.dpsgd import ROUNDING_ASSUMED, PublicSizes, Schedule
from dpcl_core.spec import Inputs, Params, RunSpec

Adapter = Literal["head", "film", "lora"]
Rule = Literal["argmax", "median", "entropy"]  # how the members of an ensemble vote
RULES: tuple[Rule, ...] = get_args(Rule)
_VARIANTS: Mapping[Adapter, str] = {"head": "last layer", "film": "FiLM", "lora": "LoRA"}
MEMBER = "member"  # no vote: the member of the test example's own task, taken as given (workshop version, figure A.1)


class PeftParams(Params):
    """The adapter, and the settings of DP-SGD (Tobaben et al., section 5 and appendix H)."""

    adapter: Adapter = Field(
        "head",
        title="Adapted parts",
        description="What is trained beside the last layer. head: nothing. film: scale and bias of every norm. lora: "
        "low-rank changes of the linear layers in the network's blocks. With lite0 both change its last stage.",
    )
    epochs: int = Field(40, ge=1, le=1000, description="How often each example is seen on average.")
    sample_rate: float = Field(
        0.1, gt=0, le=1, allow_inf_nan=False,
        title="Sampling rate q",
        description="Chance that an example is in a batch (Poisson sampling)."
    )
    clip_norm: float = Field(
        1.0, ge=1e-9, le=1e6, allow_inf_nan=False,
        title="Clipping norm C",
        description="Longest gradient that one example may contribute."
    )
    learning_rate: float = Field(0.003, gt=0, le=1e3, allow_inf_nan=False, description="Learning rate of Adam.")
    lora_rank: int = Field(
        4, ge=1, le=64, title="LoRA rank", description="Rank of the changes under lora; not used otherwise."
    )

    @property
    def inputs(self) -> Inputs:
        return "features" if self.adapter == "head" else "images"

    @property
    def shares_batches(self) -> bool:
        return self.adapter == "head"

    @property
    def n_steps(self) -> int:
        """Steps of DP-SGD: a public number that does not depend on the task's actual size."""
        return max(1, round(self.epochs / self.sample_rate))

    def schedule(self, nominal_size: float) -> Schedule:
        """The schedule of a training on data of this public nominal size."""
        batch = self.sample_rate * nominal_size
        return Schedule(self.sample_rate, self.n_steps, self.clip_norm, self.learning_rate, batch)


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput if the settings cannot be trained on data with these public sizes."""
    params = spec.params
    assert isinstance(params, PeftParams)
    if params.adapter != "head" and spec.data.backbone == "pixels":
        allowed = "must be head with data.backbone = pixels: there is no network whose layers could be adapted"
        raise BadInput("params.adapter", params.adapter, allowed, {"params.adapter": "head"})
    facts.check_sampled(params.sample_rate)


def notes(params: Params) -> tuple[str, ...]:
    """Assumptions of the bound about arithmetic; none for heads (`methods.features.head_gradients`)."""
    assert isinstance(params, PeftParams)
    return () if params.adapter == "head" else (ROUNDING_ASSUMED,)


def training_steps(params: Params) -> tuple[float, int]:
    """Sampling rate and number of steps."""
    assert isinstance(params, PeftParams)
    return params.sample_rate, params.n_steps


def variant(spec: RunSpec) -> str:
    """The adapter's name in the paper's tables."""
    assert isinstance(spec.params, PeftParams)
    return _VARIANTS[spec.params.adapter]


def derived(params: Params, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings, for a task of nominal size."""
    assert isinstance(params, PeftParams)
    batch = params.sample_rate * facts.task_size
    return f"{params.n_steps} steps of DP-SGD a task, {batch:.0f} examples in a batch on average."


# The card of a method on pretrained features, unless the method says otherwise; `trained_card`: one that trains by DP-SGD.
card = partial(
    MethodCard,
    shares="all",
    labels=("data", "prior", "prior-const", "dp-learned"),
    scenarios=("class-incremental", "split", "permuted", "source-incremental", "i-blurry", "si-blurry"),
    ceiling="non-cl",
)
trained_card = partial(card, refuses=check, derived=derived, notes=notes, training_steps=training_steps)
