"""Card of PeCL as published: token-level dynamic noise, memory sculpting, unlearning with the printed sign."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from dpcl_core.errors import BadInput
from dpcl_core.methods.common.dpsgd import PublicSizes
from dpcl_core.methods.language.cards import network_params, printed, sculpting_params
from dpcl_core.methods.language.cards.network_params import Positive
from dpcl_core.methods.language.cards.sculpting_params import SculptingParams
from dpcl_core.spec import Params, RunSpec

NO_GUARANTEE = (
    "published: heuristic noise, nominal budget only. No differential privacy guarantee for tokens, texts or people."
)


class PublishedParams(SculptingParams):
    """Settings of PeCL as published; privacy.epsilons is eps_upper, the nominal budget of the least noised token."""

    eps_lower: Positive = Field(
        1.0,
        le=1e6,
        title="Smallest nominal ε",
        description="Nominal budget of the most noised token (Eq. 4); privacy.epsilons is the least noised one's.",
    )
    granularity: Literal["token", "sentence"] = Field(
        "token",
        title="Noise drawn for each",
        description="token: noise by each token's score, none on stop words. sentence: one noise for a text, by its mean "
        "score, stop words included (the ablation w/o TDP).",
    )
    score2_scope: Literal["all", "seen", "public", "off"] = Field(
        "seen",
        title="How common a token is, from",
        description="The texts that tokens are counted in (Eq. 3). all: those of all tasks, later ones too, as printed; "
        "they are then read before the first task. seen: those of the tasks so far, never below 0. public: public ones. "
        "off: none, a token's score is its surprise.",
    )
    omega: Literal["before", "own"] = Field(
        "before",
        title="Importance taken from",
        description="Which tasks say how important an adapter is (Eqs. 9 and 10). before: those that are over. own: the one "
        "being learned as well, as printed, whose importance grows with what it changes.",
    )
    unlearning: Literal["printed", "flipped", "none"] = Field(
        "printed",
        title="Unlearning loss",
        description="The term for sensitive tokens. printed: Eq. 12 as it stands, which learns them harder. flipped: with "
        "the other sign. none: without (w/o Unlearning).",
    )


def check(spec: RunSpec, facts: PublicSizes) -> None:
    """Raises BadInput for a nominal budget that is not one number, or for settings that contradict each other."""
    params = spec.params
    assert isinstance(params, PublishedParams)
    sculpting_params.check(spec)
    if len(spec.privacy.epsilons) != 1:
        epsilons = ", ".join(f"{epsilon:g}" for epsilon in spec.privacy.epsilons)
        allowed = "must be one number, the nominal budget of the least noised token: it is no guarantee to be compared by"
        raise BadInput("privacy.epsilons", epsilons, allowed, {"privacy.epsilons": (spec.privacy.usual_epsilon,)})
    (upper,) = spec.privacy.epsilons
    if math.isfinite(upper) and params.eps_lower > upper:
        allowed = f"must be at most privacy.epsilons = {upper:g}, the nominal budget of the least noised token"
        raise BadInput("params.eps_lower", params.eps_lower, allowed)


def notes(params: Params) -> tuple[str, ...]:
    """Caveats shown first in the privacy statement."""
    assert isinstance(params, PublishedParams)
    raw = "Losses, scores and the memory read the texts without noise: the model is not made from noisy embeddings alone."
    around = "Tokens of the prompt and of the answer are neither clipped nor noised: the answer's are the label itself."
    harder = "The printed sign makes the model learn sensitive tokens harder, not forget them."
    is_printed = params.unlearning == "printed" and params.lambda_unlearn > 0
    return (NO_GUARANTEE, raw, around, *([harder] if is_printed else []))


def table_names(spec: RunSpec) -> tuple[str, str]:
    """Table names of a run: PeCL, and the parts left out or the settings that differ from table 1."""
    params = spec.params
    assert isinstance(params, PublishedParams)
    unlearns = params.unlearning != "none" and params.lambda_unlearn > 0
    parts = ["w/o TDP"] if params.granularity == "sentence" else []
    if not params.stability:
        parts.append("w/o MemReg" if unlearns else "w/o PMS")
    elif not unlearns:
        parts.append("w/o Unlearning")
    swept = (("alpha", params.alpha, 0.5), ("theta", params.theta, 0.6))
    parts += [f"{name} {value:g}" for name, value, usual in swept if value != usual]
    if unlearns and params.lambda_unlearn != 1:
        parts.append(f"lambda {params.lambda_unlearn:g}")
    return "PeCL", ", ".join(parts)


def differences(spec: RunSpec) -> tuple[str, ...]:
    """Choices of ours that the paper leaves open."""
    assert isinstance(spec.params, PublishedParams)
    scored_by = "public" if spec.params.score_model == "base" else "trained"
    return (
        *network_params.differences(spec),
        "Not given either: the clipping norm C of embeddings, which model scores a token, whether noise is drawn again. "
        f"Ours: the median embedding's length, the {scored_by} model, and "
        "noise drawn again in every pass; tokens of prompts and answers are neither clipped nor noised.",
    )


CARD = network_params.language_card(
    name="pecl-published",
    title="PeCL as published",
    summary="Trains a language model's adapters on texts with noisy embeddings: the more surprising a token, the more "
    "noise, and none on stop words. It unlearns surprising tokens and stays close to what earlier tasks learned. Its "
    "paper claims a budget for every token. But the noise depends on the text, and the loss reads the text itself, so no "
    "guarantee holds.",
    source="Zhan et al., Forget What's Sensitive, Remember What Matters",
    params=PublishedParams,
    matters=("alpha", "theta", "lambda_unlearn"),
    module="dpcl_core.methods.language.pecl_published",
    refuses=check,
    derived=network_params.derived_by_size,
    guarantee="nominal",
    notes=notes,
    printed=printed.PUBLISHED,
    table_names=table_names,
    differences=differences,
    noises_embeddings=lambda params: True,
)
