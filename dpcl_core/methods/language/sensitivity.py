"""PeCL's token sensitivity score, and the budgets and loss weights it sets (Zhan et al., Eqs. 1 to 4, 11 and 12).

The score measures surprise: how unlikely a language model finds a token, adjusted by how common the token is in the tasks.
Uses NumPy only, so that pages can compute from it.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.methods.language.params import Loss

Floats = NDArray[np.floating]
Scope = Literal["all", "seen", "public", "off"]
Form = Literal["printed", "clipped", "smoothed"]
Unlearning = Literal["none", "printed", "flipped", "mask", "hinge"]
ALPHA, TAU, THRESHOLD = 0.5, 0.2, 0.6
LOWER, UPPER = 1.0, 10.0  # default range of a token's nominal epsilon, and of the penalty strength


def counts(tokens: NDArray[np.integer], size: int) -> NDArray[np.int64]:
    """f_n: how often each of `size` tokens occurs in a task's texts, [size]. Args: tokens of any shape; padding is -1."""
    return np.bincount(tokens[tokens >= 0], minlength=size).astype(np.int64)


def salience(of_tasks: NDArray[np.integer]) -> NDArray[np.float64]:
    """p_n(v) = f_n(v) / max over v: how common a token is in each task, in [0, 1]. Args: counts [N, size]."""
    most = of_tasks.max(axis=1, keepdims=True, initial=0)
    return np.asarray(np.divide(of_tasks, most, out=np.zeros(of_tasks.shape), where=most > 0))


def commonness(of_tasks: NDArray[np.integer], form: Form = "printed", tau: float = TAU) -> NDArray[np.float64]:
    """Score2 (Eq. 3) of every token: mean over tasks of p_n(v), times log(N / (1 + d(v))), [size].

    d(v) is the number of tasks in which p_n(v) >= tau. The logarithm is negative for a token of all N tasks, which the
    paper's Lemma 2 overlooks: "printed" leaves it, "clipped" makes it 0, "smoothed" takes log((N + 1) / (d + 1)) >= 0.
    Args: counts [N, size]; no tasks give zeros.
    """
    n_tasks = len(of_tasks)
    if n_tasks == 0:
        return np.zeros(of_tasks.shape[1])
    shares = salience(of_tasks)
    salient = (shares >= tau).sum(axis=0)
    spread = np.log((n_tasks + 1 if form == "smoothed" else n_tasks) / (1 + salient))
    if form == "clipped":
        spread = np.maximum(spread, 0.0)
    return np.asarray(shares.mean(axis=0) * spread)


def scoped_commonness(
    scope: Scope, of_tasks: NDArray[np.integer], public: NDArray[np.integer], task: int, form: Form, tau: float = TAU
) -> NDArray[np.float64]:
    """Score2 of every token while learning the task, [size], from the token counts that `scope` names.

    "all": all tasks of the stream, future ones included, as printed; "seen": the tasks so far; "public": public texts only;
    "off": none, Score2 is 0. After one task the printed logarithm is at most 0, so "seen" clips it.
    Args: of_tasks [N, size]; public [M, size], of the public texts' own tasks.
    """
    if scope == "off":
        return np.zeros(of_tasks.shape[1])
    if scope == "seen":
        return commonness(of_tasks[: task + 1], "clipped" if form == "printed" else form, tau)
    return commonness(public if scope == "public" else of_tasks, form, tau)


def scores(
    log_probabilities: Floats, score2: Floats, is_stop: NDArray[np.bool_], *, alpha: float = ALPHA, clamped: bool = False
) -> NDArray[np.float64]:
    """Score (Eq. 1) of tokens: 1 - exp(-(alpha Score1 + (1 - alpha) Score2)), Score1 = -log P; 0 for stop words.

    Equals 1 - P^alpha exp(-(1 - alpha) Score2), computed without cancellation. Can be negative where Score2 is; `clamped`
    clips it to [0, 1]. Args: log P(token | tokens before it), Score2, whether the token is in a stop word; all of one shape.
    """
    exponent = alpha * np.asarray(log_probabilities, np.float64) - (1 - alpha) * np.asarray(score2, np.float64)
    values = np.where(is_stop, 0.0, -np.expm1(exponent))
    return np.clip(values, 0.0, 1.0) if clamped else values


def sentence_scores(token_scores: Floats, is_token: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The text's mean score for each of its tokens [n, L]: "sentence-level privacy", the ablation `w/o TDP`.

    Stop words get it too, so that all tokens have the same noise. Args: scores [n, L]; is_token: False for padding, which
    stays 0.
    """
    total = np.where(is_token, token_scores, 0.0).sum(axis=1, keepdims=True)
    return np.where(is_token, total / np.maximum(is_token.sum(axis=1, keepdims=True), 1), 0.0)


def nominal_epsilon(token_scores: Floats, lower: float = LOWER, upper: float = UPPER) -> NDArray[np.float64]:
    """eps_i (Eq. 4): lower + (upper - lower) (1 - Score)^2. Nominal: no mechanism of the paper delivers it.

    Above `upper` where a score is negative, against Corollary 1. For stop words Eq. 4 gives `upper`, but they get no noise.
    """
    if not 0 < lower <= upper:
        raise BadInput("params.eps_lower", lower, f"must be above 0 and at most the upper budget, {upper:g}")
    return lower + (upper - lower) * np.square(1.0 - np.asarray(token_scores, np.float64))


def out_of_range(token_scores: Floats, lower: float = LOWER, upper: float = UPPER) -> str | None:
    """A warning if scores fell below 0, with the largest nominal budget that follows; None if none did."""
    n_below = int((np.asarray(token_scores) < 0).sum())
    if n_below == 0:
        return None
    least = np.asarray(token_scores, np.float64).min(keepdims=True)
    largest = float(nominal_epsilon(least, lower, upper).max())
    whose = "1 token has a score" if n_below == 1 else f"{n_below:,} tokens have scores"
    return (
        f"{whose} below 0, down to {float(least.max()):.4f}: the nominal budget rises to {largest:.2f}, above the upper end "
        f"of its range, {upper:g}. The printed formula gives that to tokens that are common in every task."
    )


def can_fall_below(least_score2: float, alpha: float, lower: float = LOWER, upper: float = UPPER) -> str | None:
    """A warning with the lowest score that follows from the lowest Score2; None if Score2 is never below 0.

    Since Score1 >= 0, a score is at least 1 - exp(-(1 - alpha) Score2), reached by a token that the model is certain of.
    """
    if least_score2 >= 0:
        return None
    least = scores(np.zeros(1), np.array([least_score2]), np.zeros(1, np.bool_), alpha=alpha)
    largest = float(nominal_epsilon(least, lower, upper).max())
    return (
        f"Scores can fall below 0, down to {float(least.max()):.4f} at worst, and the nominal budget rises to {largest:.2f} "
        f"there, above the upper end of its range, {upper:g}. The printed formula gives that to tokens that are common in "
        "every task; how many there are is private."
    )


def penalty_strength(mean_score: float, lower: float = LOWER, upper: float = UPPER) -> float:
    """lambda_dyn (Eq. 11): `upper` for a task without sensitive tokens, `lower` if all are. Args: mean score in [0, 1]."""
    return upper * (1 - mean_score) + lower * mean_score


def loss_weights(
    token_scores: Floats, unlearning: Unlearning, loss: Loss, *, strength: float = 1.0, threshold: float = THRESHOLD,
    gap: Floats | None = None, margin: float = 0.0
) -> NDArray[np.float64]:
    """Derivative of a text's total loss (Eqs. 12, 13) with respect to a token's cross-entropy, times the number of tokens.

    Above 0 the token is learned, at 0 left alone, below 0 unlearned. For a token of the text, L_task contributes 1 under
    loss "full" and 0 under "answer". With w = (Score - threshold)+, "printed" adds strength · w: sensitive tokens are
    learned harder. "flipped" subtracts it. "mask" and "hinge" also drop sensitive tokens from L_task, and the hinge unlearns
    with weight -strength · w until a token is `margin` nats less likely than under the public model.

    Args: scores of any shape; gap: a token's cross-entropy minus that under the frozen public model, same shape, required by
    "hinge".
    """
    base = 1.0 if loss == "full" else 0.0
    excess = np.maximum(np.asarray(token_scores, np.float64) - threshold, 0.0)
    match unlearning:
        case "none":
            return np.full(excess.shape, base)
        case "printed":
            return base + strength * excess
        case "flipped":
            return base - strength * excess
        case "mask":
            return np.where(excess > 0, 0.0, base)
        case "hinge":
            if gap is None:
                raise ValueError("gap is None: the hinge needs the difference from the public model's cross-entropy")
            active = np.asarray(gap) < margin
            return np.where(excess > 0, np.where(active, -strength * excess, 0.0), base)
