"""SeqFT: fine-tuning of the same adapters on one task after another. Nothing acts against forgetting."""

from dpcl_core.methods.language.baseline import Baseline, BaselineParams, card

CARD = card(
    "SeqFT", name="lm-seqft", title="SeqFT: fine-tuning in sequence",
    summary="Trains one set of low-rank adapters of a language model on one task after another and does nothing against "
    "forgetting. No text is read again once its task is over.",
    source="Baseline of PeCL (Zhan et al.), DP-SGD (Abadi et al. 2016) or noisy embeddings",
    params=BaselineParams, module=__name__, key_settings=("mechanism", "epochs", "length"),
)
make_learner = Baseline.make_learner
