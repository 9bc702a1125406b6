"""Settings shared by all methods trained with DP-SGD on a frozen network, their checks, and what their paper prints."""

from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from dpcl_core.backbones import bundled
from dpcl_core.backbones import catalog as backbones
from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import ROUNDING_ASSUMED, Schedule
from dpcl_core.methods.common.method import MethodCard, PublicSizes, printed_by, settings_of
from dpcl_core.published import Departure, Printed, PrintedPart, Values
from dpcl_core.scenarios.catalog import WITHOUT_CLIENTS
from dpcl_core.spec import Inputs, Params, RunSpec, parameter

SOURCE = "Tobaben et al. 2025"
Adapter = Literal["head", "film", "lora", "all"]
Rule = Literal["argmax", "median", "entropy"]  # how the members of an ensemble vote
RULES: tuple[Rule, ...] = get_args(Rule)
MEMBER = "member"  # no vote: the member of the test example's own task, taken as given (workshop version, figure A.1)


@dataclass(frozen=True, kw_only=True)
class PeftParams(Params):
    """The adapter, and the settings of DP-SGD (Tobaben et al., section 5 and appendix H)."""

    adapter: Adapter = parameter(
        "head", title="Adapted parts",
        description="What is trained beside the last layer. head: nothing. film: scale and bias of every norm. lora: "
        "low-rank changes of the linear layers in the network's blocks. With lite0 both change its last stage, with a "
        "network of texts its last two blocks. all: every layer, for small networks such as your own.")
    epochs: int = parameter(40, ge=1, le=1000, description="How often each example is seen on average.")
    sample_rate: float = parameter(
        0.1, gt=0, le=1, allow_inf_nan=False, title="Sampling rate q",
        description="Chance that an example is in a batch (Poisson sampling).")
    clip_norm: float = parameter(
        1.0, ge=1e-9, le=1e6, title="Clipping norm C",
        description="Longest gradient that one example may contribute.")
    learning_rate: float = parameter(0.003, gt=0, le=1e3, description="Learning rate of Adam.")
    lora_rank: int = parameter(
        4, ge=1, le=64, title="LoRA rank", description="Rank of the changes under lora; not used otherwise.")

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
    params = settings_of(spec, PeftParams)
    if params.adapter != "head" and not backbones.has_layers(spec.data.backbone):
        why = "there is no network whose layers could be adapted"
        allowed = f"must be head with data.backbone = {spec.data.backbone}: {why}"
        raise BadInput("params.adapter", params.adapter, allowed, {"params.adapter": "head"})
    facts.check_sampled(params.sample_rate)


def notes(params: PeftParams) -> tuple[str, ...]:
    """Assumptions of the bound about arithmetic; none for heads (`methods.features.linear_heads`)."""
    return () if params.adapter == "head" else (ROUNDING_ASSUMED,)


def training_steps(params: PeftParams) -> tuple[float, int]:
    """Sampling rate and number of steps."""
    return params.sample_rate, params.n_steps


def variant(spec: RunSpec) -> str:
    """The adapter's name in the paper's tables."""
    names: dict[Adapter, str] = {"head": "last layer", "film": "FiLM", "lora": "LoRA", "all": "all layers"}
    return names[settings_of(spec, PeftParams).adapter]


def derived(params: PeftParams, facts: PublicSizes) -> str:
    """Steps and batch size that follow from the settings, for a task of nominal size."""
    batch = params.sample_rate * facts.task_size
    return f"{params.n_steps} steps of DP-SGD a task, {batch:.0f} examples in a batch on average."


# The card of a method on pretrained features, unless the method says otherwise; `trained_card`: one that trains by DP-SGD.
card = partial(
    MethodCard, cells_per_learner="all", learns_lists=True, labels=("data", "prior", "prior-const", "dp-learned"),
    ceiling="non-cl",
    scenarios=WITHOUT_CLIENTS,
)
trained_card = partial(
    card, params=PeftParams, refuses=check, derived=derived, notes=notes, training_steps=training_steps,
    audit="dpcl_core.attacks.feature_games",
)


# What Tobaben et al. print for all of their methods.


def _axes(spec: RunSpec) -> Values | None:
    """No public axes; None for a network that has none, or is unknown here: nothing can differ."""
    known = backbones.CARDS.get(spec.data.backbone)
    return None if known is None or bundled.public_part(known, spec.data.dataset) is None else (0,)


_SMALLER = Printed((None,), "A part of the data takes minutes instead of hours.", is_of_scale=True)
OF_ALL: PrintedPart = {
    "privacy.adjacency": Printed(("add-remove",), "Replacing an example moves a sum twice as far."),
    "privacy.delta": Printed((1e-5,), "δ has to stay below one over the number of people.", is_of_scale=True),
    "labels": Printed(
        ("prior-const", "prior"),
        "Labels read from the data void the bound; labels learned with noise are ours, and are paid for.",
    ),
    "data.backbone": Printed(
        ("timm:vit_base_patch16_224.augreg_in21k",), "A smaller public network runs on two cores.", is_of_scale=True
    ),
    "data.resolution": Printed((None,), "Fewer pixels are quicker.", is_of_scale=True),
    "data.dataset": Printed(("cifar100", "imagenet-r", "5-datasets"), "Other data are not the paper's.", is_of_scale=True),
    "data.axes": Printed(
        _axes,
        "Noise grows with the number of features, and most of them tell little. They are centred, turned and scaled along "
        "public axes, of which a public rule keeps the first.",
        "0, features as the network gives them",
    ),
    "data.train_per_class": _SMALLER,
    "data.train_per_source": _SMALLER,
    "data.test_per_class": Printed((None,), "Fewer test examples take less time.", is_of_scale=True),
}
_ALWAYS = (
    Departure(
        "", "by the realised one, Algorithm A1", "sums of gradients are divided by the expected batch size",
        "How many examples are in a batch is private: a divisor that follows it reveals more than the ledger counts.",
    ),
    Departure(
        "", "a random model, appendix F.1", "a task without examples runs the same noisy steps as any other",
        "A random model can be told apart from a trained one, and so an empty task from one with a single example.",
    ),
)
_SEARCHED = "Searched for with twenty trials for every budget and seed; the values found are not printed."
_TRAINED: PrintedPart = {
    "params.epochs": Printed((40,), "Fewer passes over the data take less time.", is_of_scale=True),
    "params.adapter": Printed(("film", "head"), "LoRA is named as an alternative, without a result; all layers are ours."),
    "tuned": Printed(("private",), "No budget accounts for tuning on the private data.", is_of_scale=True),
    **dict.fromkeys(("params.sample_rate", "params.clip_norm", "params.learning_rate"), _SEARCHED),
    "params.lora_rank": "Rank and place of LoRA are not given.",
}
# What the paper prints of one method, and of one that is trained: that of further settings, too.
printed = partial(printed_by, SOURCE, OF_ALL)
printed_of_trained = partial(printed, _TRAINED, always=_ALWAYS)
