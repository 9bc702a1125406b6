"""Settings that Zhan et al. print for PeCL and its baselines, one by one."""

from __future__ import annotations

from dpcl_core.layers import Departure, Print, Printed, Values, setting
from dpcl_core.privacy import text_mechanisms
from dpcl_core.spec import RunSpec

SOURCE = "Zhan et al., PeCL"


def _per_source(spec: RunSpec) -> Values | None:
    """3,000; None where `data.train_per_class` already reports the difference."""
    return (3000,) if setting(spec, "data.train_per_class") is None else None


_OF_ALL = {
    "data.dataset": Printed(
        (),
        "The posts on mental illness and the Yahoo topics could not be found or ask for an agreement.",
        words="FOMC, Yelp, AG News, Amazon, Reddit's mental illness, Yahoo",
        is_of_scale=True,
    ),
    "data.train_per_class": Printed(
        (None,), "Texts are kept by the class.", words="3,000 texts of each task", is_of_scale=True
    ),
    "data.train_per_source": Printed(
        _per_source, "A few texts take minutes.", words="3,000 texts of each task", is_of_scale=True
    ),
    "data.test_per_class": Printed((None,), "Fewer test examples take less time.", is_of_scale=True),
    "data.backbone": Printed(("hf:meta-llama/Llama-2-7b-hf",), "A small model runs on two cores.", is_of_scale=True),
    "scenario.kind": Printed(("source-incremental",), "Tasks are not the datasets."),
    "params.epochs": Printed((3,), "Another number of passes over a task."),
    "params.batch_size": Printed((32,), "Tasks of a few texts have no batches of 32."),
    "params.learning_rate": Printed((5e-4,), "The small model hardly moves at the printed step size."),
    "privacy.delta": Printed((1e-6,), "The printed noise depends on δ."),
}
_OPEN = {
    "params.length": "The length of texts, their prompts and the list of stop words are not given.",
    "params.lora_rank": "The rank of LoRA and the layers that have it are not given.",
    "params.lora_alpha": "LoRA's alpha is not given.",
    "params.adapts": "The rank of LoRA and the layers that have it are not given.",
    "params.layers": "The rank of LoRA and the layers that have it are not given.",
    "params.loss": "Both are named, and not which one was used.",
    "params.eval": "How an answer is read is not given.",
}
_SCORES = {
    "params.alpha": Printed((0.2, 0.3, 0.5, 0.7, 0.8), "No other weight of surprise is printed."),
    "params.tau": Printed((0.2,), "Another threshold of commonness."),
    "params.theta": Printed((0.3, 0.6, 0.9), "No other threshold of unlearning is printed."),
    "params.lambda_unlearn": Printed((0.0, 1.0, 3.0, 5.0, 7.0, 10.0), "No other weight of unlearning is printed."),
    "params.lambda_min": Printed((1.0,), "Adapters are held by another strength."),
    "params.lambda_max": Printed((10.0,), "Adapters are held by another strength."),
}
_SCORES_OPEN = {
    "params.score_model": "Which model scores a token is not said.",
    "params.embedding_clip": "C is not given, nor whether prompts and answers get noise; ours get none and no clip.",
    "params.stability": "Which norm of a task's activations ‖x‖ is, is not said; ours is the mean over tokens.",
    "params.margin": "The paper has no hinge.",
    "params.beta": "The paper has no NPO.",
}


def _omega(spec: RunSpec) -> Values | None:
    """ "own"; None without the memory penalty, as in the ablation w/o MemReg: the setting then has no effect."""
    return ("own",) if setting(spec, "params.stability") else None


PUBLISHED = Print(
    SOURCE,
    _OF_ALL
    | _SCORES
    | {
        "privacy.epsilons": Printed((10.0,), "Another nominal budget of the least noised token."),
        "params.eps_lower": Printed((1.0,), "Another nominal budget of the most noised token."),
        "params.granularity": Printed(("token", "sentence"), "No other noise is printed."),
        "params.score2_scope": Printed(("all",), "A stream does not know its later tasks; those seen are cut off at 0."),
        "params.unlearning": Printed(("printed", "none"), "With the printed sign sensitive tokens are learned harder."),
        "params.omega": Printed(_omega, "How important a task made an adapter is known only when it is over."),
    },
    _OPEN | _SCORES_OPEN,
)
_NOT_CHOSEN_BY_TEXT = Departure(
    "",
    "noise by each token's score, none on stop words (Eq. 5)",
    "noise is the same whatever a text says",
    "Noise that depends on a token reveals the token.",
)
REPAIRED = Print(
    SOURCE,
    _OF_ALL
    | _SCORES
    | {
        "params.unlearning": Printed(("printed", "none"), "With the printed sign sensitive tokens are learned harder."),
        "params.score2_scope": Printed(
            (), "Counts of private texts would be a release of their own.", words="the texts of all tasks"
        ),
        "params.mean_score": Printed(
            (), "A mean of private scores is a release of its own.", words="of the task's texts, without noise"
        ),
        "params.label_share": Printed((0.0,), "Labels are read as they are in the paper."),
    },
    _OPEN
    | _SCORES_OPEN
    | {
        "params.mode": "Neither DP-SGD nor one noise for all tokens is PeCL's.",
        "params.budget": "The paper adds up no budget over tasks.",
        "params.clip_norm": "The paper clips no gradient of PeCL.",
        "params.mean_score_std": "The paper adds no noise to a mean score.",
        "params.budget_per": "The paper's budget is of a token; whole texts are its Remark 1.",
    },
    (
        _NOT_CHOSEN_BY_TEXT,
        Departure(
            "",
            "for half the distance of two clipped embeddings (Eq. 5)",
            "noise is made for all of their distance, or for a clipped gradient",
            "Two vectors of length C lie up to 2C apart.",
        ),
    ),
    kind="repair",
)


def _one_in_print(spec: RunSpec) -> Values | None:
    """ε = 1 under DP-SGD; under FN the budget whose exact noise has the printed ratio, 5.299 at δ = 1e-6."""
    if setting(spec, "params.mechanism") != "fn":
        return (1.0,)
    return (round(text_mechanisms.true_epsilon(text_mechanisms.printed_ratio(1.0, 1e-6), 1e-6), 4),)


def _passes(spec: RunSpec) -> Values | None:
    """Three passes over each task's own texts. Under DP-SGD all tasks have equally many steps: no number of passes fits."""
    is_one_training = spec.method == "lm-mtl"
    return (3,) if is_one_training or setting(spec, "params.mechanism") == "fn" else ()


def _by_token(spec: RunSpec) -> Values | None:
    return ("token",) if setting(spec, "params.mechanism") == "fn" else None


def _baseline(**left_open: str) -> Print:
    """Printed settings of a baseline: the shared ones, and its own settings that the paper leaves open."""
    return Print(
        SOURCE,
        _OF_ALL
        | {
            "params.epochs": Printed(
                _passes,
                "Under DP-SGD every task has the steps of one of mean size: their number is part of what a budget pays for.",
                words="3, over each task's own texts",
            ),
            "privacy.epsilons": Printed(_one_in_print, "FN's printed noise is that of ε = 1 for half the true distance."),
            "params.mechanism": Printed(("dp-sgd", "fn"), "No other mechanism is printed."),
            "params.budget_per": Printed(_by_token, "The printed budget is of one token in one place."),
            "params.label_share": Printed((0.0,), "Labels are read as they are in the paper."),
        },
        _OPEN
        | {
            "params.budget": "What ε = 1 is for, a task or the stream, is not said.",
            "params.clip_norm": "Where gradients are clipped is not given.",
            "params.embedding_clip": "C is not given, nor whether noise is drawn again; ours is drawn once.",
        }
        | {f"params.{name}": why for name, why in left_open.items()},
    )


SEQFT = MTL = _baseline()
ER = _baseline(
    buffer_share="How much of a task is kept is not given.", replay_size="How many kept texts join a step is not given."
)
EWC = _baseline(
    strength="How strongly weights are held is not given.",
    fisher="How importance is made private is not said.",
    fisher_noise="How importance is made private is not said.",
)
GEM = _baseline(
    memory_size="How much of a task is kept is not given.",
    margin="The margin is not given.",
    reference_share="How a budget is split is not said.",
)
OLORA = _baseline(strength="The weight of the overlap is not given.")
