"""Settings that Tobaben et al. 2025 print for their methods, one by one."""

from __future__ import annotations

from dpcl_core.errors import BadInput
from dpcl_core.layers import Departure, Print, Printed, Values
from dpcl_core.spec import RunSpec

SOURCE = "Tobaben et al. 2025"


def _axes(spec: RunSpec) -> Values | None:
    """No public axes; None for a network that has none, or is unknown here: nothing can differ."""
    from dpcl_core.backbones import bundled, catalog  # cards are read before any network is needed

    try:
        card = catalog.card(spec.data.backbone)
    except BadInput:
        return None
    return None if bundled.public_part(card, spec.data.dataset) is None else (0,)


_OF_ALL = {
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
    "data.train_per_class": Printed((None,), "A part of the data takes minutes instead of hours.", is_of_scale=True),
    "data.train_per_source": Printed((None,), "A part of the data takes minutes instead of hours.", is_of_scale=True),
    "data.test_per_class": Printed((None,), "Fewer test examples take less time.", is_of_scale=True),
}
COSINE = Print(
    SOURCE,
    _OF_ALL,
    left_open={"privacy.epsilons": "How σ follows from ε is not printed; ours is the exact Gaussian mechanism."},
)
_SEARCHED = "Searched for with twenty trials for every budget and seed; the values found are not printed."
_ALWAYS = (
    Departure(
        "",
        "by the realised one, Algorithm A1",
        "sums of gradients are divided by the expected batch size",
        "How many examples are in a batch is private: a divisor that follows it reveals more than the ledger counts.",
    ),
    Departure(
        "",
        "a random model, appendix F.1",
        "a task without examples runs the same noisy steps as any other",
        "A random model can be told apart from a trained one, and so an empty task from one with a single example.",
    ),
)
_TRAINED = _OF_ALL | {
    "params.epochs": Printed((40,), "Fewer passes over the data take less time.", is_of_scale=True),
    "params.adapter": Printed(("film", "head"), "LoRA is named as an alternative, and no result of it is printed."),
    "tuned": Printed(("private",), "No budget accounts for tuning on the private data.", is_of_scale=True),
}
_OPEN = {
    "params.sample_rate": _SEARCHED,
    "params.clip_norm": _SEARCHED,
    "params.learning_rate": _SEARCHED,
    "params.lora_rank": "Rank and place of LoRA are not given.",
}
ENSEMBLE = Print(
    SOURCE, _TRAINED | {"params.rule": Printed(("argmax", "median", "entropy"), "No other rule is printed.")}, _OPEN, _ALWAYS
)
NAIVE = Print(SOURCE, _TRAINED, _OPEN, _ALWAYS)
NON_CL = Print(
    SOURCE,
    _TRAINED | {"params.release": Printed(("every-task", "once"), "Both are printed, in two versions of the paper.")},
    _OPEN,
    _ALWAYS,
)
