"""Settings that Lai et al. 2022 (Lifelong DP) print for L2DP-ML and its baselines."""

from __future__ import annotations

from dpcl_core import published
from dpcl_core.layers import Departure, Print, Printed, Values
from dpcl_core.published import Published
from dpcl_core.spec import RunSpec

SOURCE = "Lai et al. 2022"
_TASKS = {("permuted", "mnist"): 20, ("permuted", "cifar10"): 17, ("split", "mnist"): 5, ("split", "cifar10-100"): 11}


def _n_tasks(spec: RunSpec) -> Values | None:
    n_tasks = _TASKS.get((spec.scenario.kind, spec.data.dataset))
    return None if n_tasks is None else (n_tasks,)


_OF_ALL = {
    "data.dataset": Printed(
        ("mnist", "cifar10", "cifar10-100"), "HARW is not public; other data are not the paper's.", is_of_scale=True
    ),
    "data.train_per_class": Printed((None,), "A part of the data takes minutes instead of hours.", is_of_scale=True),
    "data.train_per_source": Printed((None,), "A part of the data takes minutes instead of hours.", is_of_scale=True),
    "data.test_per_class": Printed((None,), "Fewer test examples take less time.", is_of_scale=True),
    "scenario.tasks": Printed(_n_tasks, "Fewer tasks take minutes instead of hours.", is_of_scale=True),
}
_OPEN = {
    "seeds": "How often runs were repeated is not given.",
    "data.backbone": "Strides, padding, normalisation and first weights of the networks are not given.",
    "params.head": "Whether tasks of different classes share a head is not said.",
    "params.learning_rate": "The step size is not given.",
}
_BATCHES = {
    "params.variant": Printed(("basic", "balanced", "heterogeneous"), "No other schedule is printed."),
    "params.epochs": Printed((1, 2, 3, 5), "Another number of passes over a task."),
    "params.epochs_by_task": Printed(
        (None, (5, 5, 5, 1), (5, 5, 1, 5), (5, 1, 5, 5), (1, 5, 5, 5)),
        "Printed are five passes over recordings at 5, 10 and 20 Hz, and one at 50 Hz.",
    ),
    "params.memory_pick": Printed(("random",), "The last batch of a task is what code of the same group keeps."),
    "params.ref_batches": Printed((1,), "More stored batches make the memory's gradient steadier."),
}
_BATCHES_OPEN = _OPEN | {
    "params.batch_size": "The batch size is not given, nor what becomes of a rest that fills no batch; ours is left out.",
    "params.steps": "How many steps the balanced variant takes is not given.",
}
L2DP_ML = Print(
    SOURCE,
    _OF_ALL
    | _BATCHES
    | {
        "params.projection": Printed(("always",), "A-GEM's own code leaves a step alone that does the memory no harm."),
        "params.scope": Printed(("joint",), "The algorithms print one gradient; each block has a loss of its own."),
        "params.algorithm": Printed(("batches", "whole-task"), "No other algorithm is printed."),
        "params.delta_r": Printed(("literal",), "The predecessor's code takes a thousandth of the printed sensitivity."),
        "params.theta_norm": Printed(("columns",), "The norm that bounds what one input does goes over rows."),
        "params.theta1_norm_cap": Printed((0.0,), "The claim depends on the encoder's norm, which nothing printed holds."),
        "params.output_norm_cap": Printed((0.0,), "The same noise at every step would add up without end."),
        "params.losses": Printed(("taylor",), "A-GEM's own loss, to see what the polynomials do."),
        "params.recon_objective": Printed(("taylor1-linear",), "The printed loss has no minimum."),
        "params.label_objective": Printed(("eq-12",), "With two signs of Eq. 12 as printed, it has no minimum."),
        "params.encoder_weight": Printed((1.0,), "One of the two losses would drown the other."),
        "params.encoder_divisor": Printed(("none",), "The encoder's gradient is nearly all noise, of any size."),
        "params.first_layer": Printed(("plain",), "Noise alone would switch units on and off, whatever the picture."),
        "params.output_noise": Printed(("shared",), "The predecessor's code draws numbers for each class."),
    },
    _BATCHES_OPEN
    | {
        "params.encoder_share": "How ε is split between encoder and output layer is not given.",
        "params.test_noise": "Whether test examples carry the noise is not said.",
    },
)
AGEM = Print(
    SOURCE,
    _OF_ALL
    | _BATCHES
    | {
        "params.projection": Printed(("if-violated", "always"), "Chaudhry et al. print the one, Lai et al. the other."),
        "params.scope": Printed(("joint",), "A-GEM projects the whole gradient."),
    },
    _BATCHES_OPEN,
)


def _part(row: Published, name: str) -> float:
    """The number after "z=" or "C=" in the variant of a row of table 5."""
    return next(float(part[2:]) for part in row.variant.split() if part.startswith(f"{name}="))


_REPLAY_OPEN = _OPEN | {
    "params.sample_rate": "How batches are drawn is not given.",
    "params.memory_size": "How much is kept of a task is not given.",
    "params.replay_rate": "How much of it a step reads is not given.",
    "params.memory_epsilon_cap": "Nothing retires a stored example in print.",
    "params.epochs": "The passes of this baseline are not given.",
    "params.steps": "How many steps it takes is not given.",
    "params.scope": "Whether the projection is of the whole gradient is not said.",
}
_NOISE = published.by_budget("lifelong", "text", "noise_scale_z")  # chosen for each epsilon from the grid of table 5
_CLIPS = tuple(dict.fromkeys(published.by_budget("lifelong", "text", "clipping_bound_C").values()))
_GRID = published.numbers("lifelong", "5", "avg_accuracy_pct")
_GRID_OF = {name: tuple(dict.fromkeys(_part(row, name) for row, _ in _GRID)) for name in "zC"}


def grid_name(noise_multiplier: float, clip_norm: float, epsilon: float) -> str:
    """The name that table 5 gives to these settings; "" for those that the paper selected, which have none elsewhere."""
    if _NOISE.get(epsilon) == noise_multiplier and clip_norm in _CLIPS:
        return ""
    return f"z={noise_multiplier} C={clip_norm}"


DP_AGEM = Print(
    SOURCE,
    _OF_ALL
    | {
        "params.projection": Printed(("always",), "A-GEM's own code leaves a step alone that does the memory no harm."),
        "params.budget": Printed(("per-task",), "One noise for a person's whole life makes one bound of it."),
        "params.noise_multiplier": Printed(
            (None, *_GRID_OF["z"]),
            "Printed are {:g}, {:g} and {:g} at ε = {:g}, {:g} and {:g}; the ledger asks for others.".format(
                *_NOISE.values(), *_NOISE
            ),
        ),
        "params.clip_norm": Printed(_GRID_OF["C"], "The printed best is the smallest of its grid."),
    },
    _REPLAY_OPEN,
    (
        Departure(
            "",
            "averaged gradients clipped layer by layer",
            "every example's whole gradient is clipped, in Poisson batches",
            "Only what one example adds can be bounded by clipping it.",
        ),
        Departure("", "only the task's own steps", "replays are paid for", "A kept example is read again in later tasks."),
        Departure("", "none", "δ is stated, and split with ε over the tasks", "A Gaussian has no bound without a δ."),
    ),
    kind="repair",
)
JOINT = Print(
    SOURCE,
    _OF_ALL
    | {
        "data.dataset": Printed((), "HARW is not public; other data are not the paper's.", "HARW", is_of_scale=True),
        "params.network": Printed(
            ("cnn-32", "cnn-64", "cnn-128", "bilstm", "cnn-ig", "cnn-ig-featureless"),
            "Table 4 has other networks than the experiments.",
        ),
    },
    _OPEN
    | {
        "params.batch_size": "The batch size is not given.",
        "params.epochs": "The epochs of centralised training are not given.",
    },
)
_RELEASED_ONCE = Departure(
    "",
    "three draws of noise for all records, steps and tasks",
    "each task is released once, with noise of its own",
    "Subtracting two records that share a noise removes it.",
)
_LINEAR = Departure(
    "",
    "a network trained whole, with an auto-encoder as its first layer",
    "linear classifiers on features that depend on no private data",
    "What a release says of features stays true while the classifier learns.",
)
_READOUT: dict[str, Printed] = {
    "params.projection": Printed(("always",), "A-GEM's own code leaves a step alone that does the memory no harm.")
}
_READOUT_OPEN = {name: why for name, why in _OPEN.items() if name != "data.backbone"} | {
    "params.steps": "Steps on a release cost nothing; the paper's single pass is no limit."
}
COEFFICIENTS = Print(
    SOURCE,
    _OF_ALL | _READOUT | {"params.solution": Printed(("steps",), "The sum of all tasks' losses can be minimised at once.")},
    _READOUT_OPEN | {"params.features": "The paper learns its features."},
    (_RELEASED_ONCE, _LINEAR),
    kind="repair",
)
LAPLACE = Print(
    SOURCE,
    _OF_ALL
    | _READOUT
    | {"params.project_to": Printed((0,), "On fewer values less noise is needed.")},
    _READOUT_OPEN
    | {
        "params.clip": "The paper projects nothing, and so clips nothing.",
        "params.label_share": "Labels have no noise of their own in the paper.",
    },
    (
        Departure("", "one draw of noise for all records", "every record has noise of its own", _RELEASED_ONCE.why),
        Departure(
            "", "a noise on the output layer's coefficients", "every label is a random answer",
            "The layers below the output would read labels without any noise.",
        ),
        _LINEAR,
    ),
    kind="repair",
)  # fmt: skip
