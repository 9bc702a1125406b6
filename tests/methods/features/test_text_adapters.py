"""LoRA and FiLM on networks of texts: gradients of single texts, and what of a text is kept for them."""

import math
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dpcl_core import checks, engine
from dpcl_core.backbones import adaptable, catalog, encoders, extractor, weights
from dpcl_core.data import catalog as datasets
from dpcl_core.data.texts import Texts
from dpcl_core.events import CellFinished, References, of_kind
from dpcl_core.methods.features import adapters, params, side_by_side
from dpcl_core.spec import RunSpec
from tests.methods import clipped_sums
from tests.support.asserting import refuses

TEXTS = (
    "A river ran past the old town.", "", "Goal!", "The market fell again, and prices with it.", "word " * 300,
    "Rain on the roof, rain in the yard.", "Nobody scored.", "A loan, a bank and a debt.",
)  # fmt: skip
LABELS = np.array([0, 1, 2, 3, 0, 1, 2, 3])


def small_bert() -> adaptable.Bert:
    """Three blocks of BERT with twelve heads of two numbers, and random weights."""
    weights.ensure_torchvision()
    from transformers import BertConfig, BertModel

    torch.manual_seed(3)
    sizes = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 12}
    model = BertModel(BertConfig(vocab_size=300, initializer_range=0.5, **sizes), add_pooling_layer=False)
    return adaptable.Bert({name: weight + 0.1 * torch.randn(weight.shape) for name, weight in model.state_dict().items()})


class Letters:
    """A tokenizer of bytes, with a mark before and after the text."""

    length = 10**6

    def enable_truncation(self, length: int) -> None:
        self.length = length

    def encode_batch(self, strings: list[str]) -> list[Any]:
        ids = [[1, *[2 + byte for byte in string.encode()][: self.length - 2], 0] for string in strings]
        return [type("Encoded", (), {"ids": one}) for one in ids]


@pytest.fixture(params=["bert", "lm-tiny"])
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> adaptable.Network:
    if request.param == "bert":
        monkeypatch.setattr(encoders, "opened_minilm", lambda device: (Letters(), small_bert()))
        return encoders.make_network(catalog.card("minilm"), "cpu")
    return _tiny()


@cache
def _tiny() -> adaptable.Network:
    return adaptable.load("lm-tiny")


def kept(network: adaptable.Network, texts: tuple[str, ...] = TEXTS) -> np.ndarray:
    return np.asarray(extractor.result_of(network.features.stored(Texts(list(texts)))))


def moved(network: adaptable.Network, kind: adapters.Kind) -> adapters.Adapted:
    """A model somewhere in training, in double precision."""
    made = adapters.fresh(network, kind, 2, range(4), 4, 0)
    generator = torch.Generator().manual_seed(7)
    for weight in made.weights.values():
        weight += 0.3 * torch.randn(weight.shape, generator=generator)
    return deepcopy(made.module()).double()  # a copy: the frozen tensors are shared by all models


def sums_differ(network: adaptable.Network, kind: adapters.Kind) -> bool:
    return not clipped_sums.of_adapter(moved(network, kind), kept(network), LABELS, 5).equals_loop(1e-10)


@pytest.mark.parametrize("kind", ["lora", "film", "all"])
def test_clipped_sums_equal_a_loop_with_a_batch_size_of_one(network: adaptable.Network, kind: adapters.Kind) -> None:
    assert not sums_differ(network, kind)


def test_clipping_one_layer_after_the_other_is_found(network: adaptable.Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on all layers together."""
    honest = side_by_side.clipped_sums

    def each(grads: list[side_by_side.Gradient], clips: Tensor, own: Tensor) -> list[Tensor]:
        return [honest([one], clips, own)[0] for one in grads]

    monkeypatch.setattr(side_by_side, "clipped_sums", each)
    assert sums_differ(network, "lora")


def test_what_is_kept_of_a_text_depends_on_that_text_alone(network: adaptable.Network) -> None:
    together = kept(network)
    assert together.shape[1] == adaptable.PIECES
    for place in (0, 1, 4):
        np.testing.assert_array_equal(kept(network, TEXTS[place : place + 1]), together[[place]])
        np.testing.assert_array_equal(kept(network, TEXTS[::-1])[-1 - place], together[place])


def test_padding_and_what_comes_after_the_last_piece_change_nothing(network: adaptable.Network) -> None:
    states, module = kept(network), moved(network, "lora")
    other = states.copy()
    other[:, :, :-1] = np.where(np.cumsum(states[:, ::-1, -1:], 1)[:, ::-1] > 0, states[:, :, :-1], 9)
    assert (other != states).any(), "the padding is not what it was"
    torch.testing.assert_close(module(torch.from_numpy(other)), module(torch.from_numpy(states)), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(kept(network, ("word " * 500,))[0], states[4])


def test_an_empty_text_has_a_gradient_and_a_finite_one(network: adaptable.Network) -> None:
    module, states = moved(network, "lora"), kept(network, ("",))
    assert module(torch.from_numpy(states)).isfinite().all()
    assert all(part.isfinite().all() for part in side_by_side.Gradients(module, 1.0, 4, "cpu").of(states, LABELS[:1]))


def test_lora_changes_the_attention_of_the_last_blocks() -> None:
    names = adapters.targets(_tiny().features)
    assert {name.rpartition(".")[2] for name in names} == {"c_attn"}
    assert len(names) == adaptable.BLOCKS


def test_states_above_the_cut_are_the_language_model_s_own() -> None:
    """Kept states and the last blocks, with `Linear` for GPT-2's layer, end where the whole model does."""
    from dpcl_core.backbones import causal, plain_language

    text = TEXTS[0]
    ids = [plain_language.load_tokenizer("lm-tiny").bos, *plain_language.load_tokenizer("lm-tiny").encode(text)[0]]
    with torch.no_grad():
        whole = causal.load("lm-tiny", single=True).base_model(input_ids=torch.tensor([ids])).last_hidden_state[0, 1:]
        found = _tiny().features(torch.from_numpy(kept(_tiny(), (text,))))
    torch.testing.assert_close(found[0], functional.normalize(whole.mean(0), dim=0), rtol=0, atol=2e-3)  # kept in half


@pytest.mark.skipif(catalog.available(catalog.card("minilm")) is not None, reason="MiniLM's weights are not here")
def test_minilm_starts_as_its_frozen_features() -> None:
    network, texts = adaptable.load("minilm"), Texts([TEXTS[0], TEXTS[3]])
    with torch.no_grad():
        found = network.features(torch.from_numpy(np.asarray(extractor.result_of(network.features.stored(texts)))))
    torch.testing.assert_close(found, torch.from_numpy(extractor.features("minilm", texts)), rtol=0, atol=2e-3)


def asked(**changes: Any) -> dict[str, Any]:
    return {
        "method": "peft-ensemble", "params": {"adapter": "lora"}, "data": {"dataset": "ag_news", "backbone": "lm-tiny"},
        **changes,
    }  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), [
    ({"data": {"dataset": "ag_news", "backbone": "hashed-text"}}, r"params\.adapter = lora: must be head with data"),
    ({"data": {"dataset": "digits", "backbone": "lm-tiny"}}, r"data\.backbone = lm-tiny: is a language model, which"),
    ({"data": {"dataset": "ag_news", "backbone": "vit-cifar100"}}, r"data\.backbone = vit-cifar100: must be an encoder"),
    ({"params": {"adapter": "head"}}, r"data\.backbone = lm-tiny: must be an encoder of texts"),
    ({"scenario": {"kind": "permuted", "tasks": 2}, "labels": "prior-const"}, r"params\.adapter = lora: must be head"),
])  # fmt: skip
def test_what_does_not_go_together_is_said_in_one_sentence(changes: dict[str, Any], said: str) -> None:
    refuses(f"^{said}", checked, checks.parse(asked(**changes)))


def checked(spec: RunSpec) -> None:
    """By the cards, and by what the method refuses of them; no data are needed."""
    checks.check_cards(spec, datasets.card(spec.data.dataset))
    params.check(spec, None)  # type: ignore[arg-type]


def test_a_run_releases_adapters_within_its_budget(home: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from tests.test_any_data import texts

    for split, n in (("train", 80), ("test", 40)):
        texts(tmp_path / "topics", split, [row % 4 for row in range(n)], np.random.default_rng(7))
    monkeypatch.setenv("DPCL_DATA", str(tmp_path))
    settings = {"adapter": "lora", "lora_rank": 1, "epochs": 6, "sample_rate": 0.25, "learning_rate": 0.05}
    data = {"dataset": "own:topics", "backbone": "lm-tiny"}
    privacy = {"epsilons": [8.0, math.inf], "delta": 1e-3, "noise": "seeded"}
    scenario = {"kind": "class-incremental", "tasks": 2}
    more = {"privacy": privacy, "scenario": scenario, "seeds": [0], "labels": "prior-const"}
    events = list(engine.run(checks.parse(asked(params=settings, data=data, **more))))
    private, free = of_kind(events, CellFinished)
    (known, *_) = of_kind(events, References)
    assert private.guarantee.epsilon <= 8.0
    assert (free.metrics["AA"] or 0) >= known.chance + 0.1
