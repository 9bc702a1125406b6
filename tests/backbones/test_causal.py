"""Language models in torch: adapters that begin as nothing, frozen tensors shared by copies, and a model in two parts."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from dpcl_core.backbones import causal, kept_states, plain_language
from dpcl_core.backbones.causal import Adapted
from dpcl_core.backbones.weights import ensure_torchvision
from dpcl_core.data.texts import KIND, KINDS, PADDING, STOP, TOKEN, Span, Texts
from dpcl_core.errors import BadInput
from tests.backbones import language_models
from tests.support.asserting import refuses
from tests.support.watching import watched


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of weights of one's own."""
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path / "weights"))
    language_models.forget()
    return tmp_path / "weights"


def ids(n: int, length: int, size: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(2, size, (n, length)))


@pytest.mark.parametrize("name", ["lm-tiny", "hf:somebody/gpt2", "hf:somebody/llama"])
def test_fresh_adapters_change_nothing_and_trained_ones_do(name: str, weights: Path) -> None:
    if name != "lm-tiny":
        language_models.put(weights / name.removeprefix("hf:").replace("/", "--"), name.rpartition("/")[2])
    size = plain_language.load_tokenizer(name).size
    tokens = ids(3, 12, size)
    model, frozen = causal.adapted(name, "cpu", rank=4, alpha=8, seed=0), causal.load(name)
    mask = torch.ones_like(tokens)
    found = model(model.embed(tokens), mask)
    assert found.shape == (3, 12, size)
    torch.testing.assert_close(found, frozen(input_ids=tokens).logits, atol=1e-6, rtol=0)
    assert (drawn_anew(model)(model.embed(tokens), mask) - found).abs().max() > 1e-3
    torch.testing.assert_close(frozen(input_ids=tokens).logits, found, atol=1e-6, rtol=0)


def test_adapters_add_alpha_over_rank_times_the_product(weights: Path) -> None:
    model = drawn_anew(causal.adapted("lm-tiny", "cpu", rank=4, alpha=12, seed=0))
    assert model.scale == 3
    frozen = causal.load("lm-tiny")
    inputs = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(0))
    for (name, layer), (first, second) in zip(model.layers.items(), model.pairs(), strict=True):
        expected = frozen.get_submodule(name)(inputs) + 3 * inputs @ first.T @ second.T
        torch.testing.assert_close(layer(inputs), expected, atol=1e-5, rtol=1e-5)


def test_only_the_factors_are_trained_and_carry_their_layers_name(weights: Path) -> None:
    model = causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=0)
    named = model.trainable()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert set(map(id, trained)) == set(map(id, named.values()))
    assert len(trained) == len(named) == 2 * len(model.pairs()) == 4
    assert [f"{name}.{factor}" for name in model.layers for factor in "AB"] == list(named)
    for name in model.layers:
        assert (named[f"{name}.A"].shape, named[f"{name}.B"].shape) == ((4, 64), (192, 4))
        assert not named[f"{name}.B"].any()


def test_copies_share_every_frozen_tensor_and_no_trained_one_and_the_seed_decides_their_start(weights: Path) -> None:
    shared, state = {part.data_ptr() for part in causal.load("lm-tiny").parameters()}, torch.random.get_rng_state()
    one, again, other = (causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.random.get_rng_state(), state), "nothing else random is touched"
    for model in (one, other):
        assert {part.data_ptr() for part in model.parameters() if not part.requires_grad} == shared
    mine, same, theirs = (model.trainable() for model in (one, again, other))
    assert not {part.data_ptr() for part in mine.values()} & {part.data_ptr() for part in theirs.values()}
    assert all(torch.equal(mine[name], same[name]) for name in mine)
    first, second = (f"transformer.h.{k}.attn.c_attn.A" for k in (0, 1))
    assert not torch.equal(mine[first], theirs[first])
    assert not torch.equal(mine[first], mine[second])


@pytest.mark.parametrize("name", ["lm-tiny", "hf:somebody/gpt2"])
def test_there_is_no_dropout_even_in_training_mode(name: str, weights: Path) -> None:
    language_models.put(weights / "somebody--gpt2")
    model = drawn_anew(causal.adapted(name, "cpu", rank=4, alpha=8, seed=0)).train()
    tokens = ids(2, 9, plain_language.load_tokenizer(name).size)
    assert torch.equal(*(model(model.embed(tokens), torch.ones_like(tokens)) for _ in range(2)))


def test_gradients_reach_the_factors_alone_and_pass_to_the_embeddings(weights: Path) -> None:
    model = drawn_anew(causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=0))
    tokens = ids(2, 9, 1000)
    embedded = model.embed(tokens).requires_grad_()
    model(embedded, torch.ones_like(tokens)).logsumexp(-1).sum().backward()
    assert embedded.grad is not None
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.trainable().values())
    assert all(parameter.grad is None for parameter in causal.load("lm-tiny").parameters())


def test_padding_at_the_end_changes_nothing_before_it(weights: Path) -> None:
    model = drawn_anew(causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=0))
    tokens = ids(2, 12, 1000)
    tokens[1, 7:] = -1
    mask = (tokens >= 0).long()
    together = model(model.embed(tokens), mask)
    torch.testing.assert_close(together[1:, :7], model(model.embed(tokens[1:, :7]), mask[1:, :7]), atol=1e-5, rtol=1e-5)


def test_how_far_a_model_looks_back_is_known_and_longer_texts_are_refused(weights: Path) -> None:
    language_models.put(weights / "somebody--llama", "llama")
    assert causal.adapted("hf:somebody/llama", "cpu", rank=1, alpha=1, seed=0).context == 64
    model = causal.adapted("lm-tiny", "cpu", rank=1, alpha=1, seed=0)
    assert (model.context, model.embed(ids(1, 256, 1000)).shape) == (256, (1, 256, 64))
    assert model.embed(torch.arange(1536)).shape == (1536, 64)
    with pytest.raises(BadInput, match=r"^data\.backbone = lm-tiny: looks back on 256 tokens, and a text .* has 257: lower"):
        model.embed(ids(1, 257, 1000))


@pytest.mark.parametrize(("family", "named"), [("bert", "BertForMaskedLM"), ("gpt2", "safetensors")])
def test_a_model_that_predicts_no_next_token_and_weights_that_are_pickles_are_refused(
    family: str, named: str, weights: Path
) -> None:
    folder = language_models.put(weights / f"somebody--{family}", family)
    if family == "gpt2":
        (folder / "model.safetensors").unlink()
        torch.save({}, folder / "pytorch_model.bin")
    refuses(named, causal.load, f"hf:somebody/{family}")


def test_an_attention_with_unknown_projections_is_refused(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal, "PROJECTIONS", ("q_proj",))
    with pytest.raises(BadInput, match="must be a model whose attention has projections called q_proj"):
        causal.adapted("lm-tiny", "cpu", rank=4, alpha=8, seed=0)


# A model in two parts, and the states between them: kept by content, alike for whoever asks.


def network(kind: str, seed: int = 0) -> torch.nn.Module:
    ensure_torchvision()
    from transformers import GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    sizes = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2}
    if kind == "gpt2":
        made = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=64, n_embd=16, n_layer=4, n_head=2))
    elif kind == "neox":
        made = GPTNeoXForCausalLM(GPTNeoXConfig(**sizes))
    else:
        made = LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=1))
    return made.eval().requires_grad_(False)


def drawn_anew(net: Adapted) -> Adapted:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in net.trainable().values():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return net


EVERY = torch.arange(21).expand(3, -1)
IDS = torch.from_numpy(np.random.default_rng(0).integers(0, 40, (3, 21)))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "neox"])
@pytest.mark.parametrize("layers", [1, 2, 4, 9])
def test_the_two_parts_together_are_the_model(kind: str, layers: int) -> None:
    net = drawn_anew(Adapted(network(kind), 2, 4.0, 0, layers))
    assert net.split.cut == max(0, 4 - layers)
    assert len(net.pairs()) == min(layers, 4) * len(Adapted(network(kind), 2, 4.0, 0).pairs()) // 4
    with torch.no_grad():
        states = net.split.below(net.embed(IDS))
        for part, whole in ((net.split, net.model), (net.public, network(kind))):
            logits = whole(input_ids=IDS).logits
            torch.testing.assert_close(part.above(states, EVERY), logits, rtol=0, atol=1e-5)
            some = torch.tensor([[3, 20], [0, 1], [7, 7]])
            expected = logits[torch.arange(3)[:, None], some]
            torch.testing.assert_close(part.above(states, some), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "n_maps"), [("gpt2", 4), ("llama", 7), ("neox", 4)])
def test_every_linear_map_of_the_last_blocks_can_be_adapted(kind: str, n_maps: int) -> None:
    net = drawn_anew(Adapted(network(kind), 2, 4.0, 0, 2, every=True))
    assert len(net.pairs()) == 2 * n_maps
    with torch.no_grad():
        found = net.split.above(net.split.below(net.embed(IDS)), EVERY)
        torch.testing.assert_close(found, net.model(input_ids=IDS).logits, rtol=0, atol=1e-5)


def test_gradients_reach_the_adapters_and_nothing_below() -> None:
    net = drawn_anew(Adapted(network("llama"), 2, 4.0, 0, 2))
    states = net.split.below(net.embed(IDS))
    assert not states.requires_grad
    found = torch.autograd.grad(net.split.above(states, EVERY).square().sum(), list(net.trainable().values()))
    assert all(part.abs().sum() > 0 for part in found)
    some = torch.tensor([[3, 20, 3], [0, 1, 0], [7, 7, 7]])  # a column that is asked for twice counts twice, not more
    ways = []
    for logits in (net.split.above(states, some), net.model(input_ids=IDS).logits[torch.arange(3)[:, None], some]):
        ways.append(torch.autograd.grad(logits.square().sum(), list(net.trainable().values())))
    for one, other in zip(*ways, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_logits_of_some_tokens_are_those_among_all(kind: str) -> None:
    net, tokens = drawn_anew(Adapted(network(kind), 2, 4.0, 0, 1)), torch.tensor([2, 5, 11])
    head = net.model.get_output_embeddings()  # type: ignore[operator]
    whole = head.weight  # type: ignore[union-attr]
    states = net.split.below(net.embed(IDS))
    ways = []
    for logits in (net.split.above(states, EVERY, tokens=tokens), net.split.above(states, EVERY)[..., tokens]):
        ways.append((logits, *torch.autograd.grad(logits.square().sum(), list(net.trainable().values()))))
    for one, other in zip(*ways, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)  # products of other shapes add in another order
    assert head.weight is whole  # type: ignore[union-attr]


def kept(net: Adapted, folder: Path) -> kept_states.KeptStates:
    return kept_states.KeptStates(net._below, net.public.identity, 16, folder)


def test_kept_states_are_the_fresh_ones_to_the_bit(tmp_path: Path) -> None:
    net = Adapted(network("llama"), 2, 4.0, 0, 2)
    mask = torch.arange(21) < torch.tensor([[21], [4], [17]])
    fresh = kept(net, tmp_path).of(IDS, mask)
    assert len(list(tmp_path.iterdir())) == 3
    torch.testing.assert_close(kept(net, tmp_path).of(IDS, mask), fresh, rtol=0, atol=0)
    with torch.no_grad():
        expected = net.split.below(net.embed(IDS)).where(mask[..., None], 0)
    torch.testing.assert_close(fresh.float(), expected, rtol=2.0**-10, atol=1e-5)


def test_a_text_has_the_same_states_whoever_is_beside_it(tmp_path: Path) -> None:
    net = Adapted(network("llama"), 2, 4.0, 0, 2)
    ids, mask = IDS.repeat(7, 1), torch.arange(21) < torch.tensor([3 + k for k in range(18)] + [21] * 3)[:, None]
    together = kept(net, tmp_path / "a").of(ids, mask)
    for row in range(len(ids)):
        n = int(mask[row].sum())
        alone = kept(net, tmp_path / f"b{row}").of(ids[row : row + 1, :n], mask[row : row + 1, :n])
        assert torch.equal(together[row, :n], alone[0])


def test_a_damaged_file_is_computed_again_and_another_network_has_its_own(tmp_path: Path) -> None:
    net, mask = Adapted(network("llama"), 2, 4.0, 0, 2), torch.ones((1, 21), dtype=torch.bool)
    fresh = kept(net, tmp_path).of(IDS[:1], mask)
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"0" + file.read_bytes()[1:])
    assert torch.equal(kept(net, tmp_path).of(IDS[:1], mask), fresh)
    for other in (Adapted(network("llama", seed=1), 2, 4.0, 0, 2), Adapted(network("llama"), 2, 4.0, 0, 1)):
        assert not torch.equal(kept(other, tmp_path).of(IDS[:1], mask), fresh)
    assert len(list(tmp_path.iterdir())) == 3


def test_the_oldest_files_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_states, "MOST_BYTES", 10 * (2 * 21 * 16 + 16))
    net, mask = Adapted(network("llama"), 2, 4.0, 0, 2), torch.ones((1, 21), dtype=torch.bool)
    store, rows = kept(net, tmp_path), [(IDS[:1] + k) % 40 for k in range(14)]
    for row in rows:
        store.of(row, mask)
    left = {path.name for path in tmp_path.iterdir()}
    names = [store._key(row[0].numpy()) for row in rows]
    assert len(left) <= 10
    assert left == set(names[-len(left) :])


# The bundled language model without torch: its tokens, its texts, and its scores against transformers.


TOLERANCE, RELATIVE = 1e-5, 1e-6  # random tokens are down at -27 nats, where single precision ends


@pytest.fixture(scope="module")
def model() -> plain_language.PlainModel:
    return plain_language.load()


def drawn(n: int, length: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(2, plain_language.load().shape.size, (n, length))


@torch.no_grad()
def by_transformers(tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """log P of every token of texts without padding, in double precision."""
    exact = copy.deepcopy(causal.load("lm-tiny")).double()
    marks = np.full((len(tokens), 1), plain_language.load_tokenizer("lm-tiny").bos)
    scores = exact(input_ids=torch.from_numpy(np.concatenate([marks, tokens[:, :-1]], axis=1))).logits.log_softmax(-1)
    found: NDArray[np.float64] = scores.gather(2, torch.from_numpy(tokens)[:, :, None])[:, :, 0].numpy()
    return found


@pytest.mark.parametrize(("n", "length"), [(3, 1), (40, 17), (2, 256)])
def test_log_probabilities_are_those_of_transformers(model: plain_language.PlainModel, n: int, length: int) -> None:
    tokens = drawn(n, length)
    np.testing.assert_allclose(model.log_probabilities(tokens), by_transformers(tokens), atol=TOLERANCE, rtol=RELATIVE)


def test_padding_changes_nothing_and_counts_zero(model: plain_language.PlainModel) -> None:
    tokens = drawn(6, 40)
    alone = [model.log_probabilities(row[None, : 5 * (place + 1)])[0] for place, row in enumerate(tokens)]
    for place in range(6):
        tokens[place, 5 * (place + 1) :] = PADDING
    for place, row in enumerate(model.log_probabilities(tokens)):
        np.testing.assert_allclose(row[: 5 * (place + 1)], alone[place], atol=TOLERANCE, rtol=RELATIVE)
        assert not row[5 * (place + 1) :].any()


def test_a_texts_scores_have_the_same_bits_whoever_is_beside_it(model: plain_language.PlainModel) -> None:
    """They enter what a private text adds to a clipped sum; a neighbour with a longer or a shorter text changes nothing."""
    draw = np.random.default_rng(0)
    tokens = drawn(150, 300)
    for row, length in zip(tokens, draw.integers(1, 300, len(tokens)), strict=True):
        row[length:] = PADDING
    together = model.log_probabilities(tokens)
    for n in (1, 2, 50, 149):
        some = draw.permutation(len(tokens))[:n]
        np.testing.assert_array_equal(model.log_probabilities(tokens[some]), together[some])


def test_long_texts_are_read_in_windows_half_of_which_is_new(model: plain_language.PlainModel) -> None:
    context = model.shape.context
    tokens = drawn(1, 3 * context + 17)
    found = model.log_probabilities(tokens)[0]
    np.testing.assert_allclose(found[:context], by_transformers(tokens[:, :context])[0], atol=TOLERANCE, rtol=RELATIVE)
    for end in range(context + context // 2, tokens.shape[1], context // 2):
        window = by_transformers(tokens[:, end - context : end])[0]
        np.testing.assert_allclose(found[end - context // 2 : end], window[-(context // 2) :], atol=TOLERANCE, rtol=RELATIVE)
    np.testing.assert_allclose(found[-17:], by_transformers(tokens[:, -context:])[0][-17:], atol=TOLERANCE, rtol=RELATIVE)
    assert (found < 0).all()


def test_no_text_and_empty_texts(model: plain_language.PlainModel) -> None:
    assert model.log_probabilities(np.zeros((0, 8), np.int64)).shape == (0, 8)
    assert not model.log_probabilities(np.full((3, 4), PADDING)).any()


def test_of_a_text_ten_times_as_long_about_ten_times_as_many_places_are_computed(
    model: plain_language.PlainModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In windows of the context at most; windows that grew with the text would have a hundred times as many places."""
    shapes: list[tuple[int, ...]] = []
    watched(monkeypatch, plain_language.PlainModel, "_scored", lambda _, given: shapes.append(given[1].shape))
    places = []
    for length in (3_000, 30_000):
        shapes.clear()
        model.log_probabilities(drawn(1, length))
        places.append(sum(n * width for n, width in shapes))
        assert max(width for _, width in shapes) <= model.shape.context
    assert 5 * places[0] < places[1] < 15 * places[0]


def test_embeddings_are_the_models_own(model: plain_language.PlainModel) -> None:
    own = causal.load("lm-tiny").get_input_embeddings().weight.numpy()  # type: ignore[union-attr]
    np.testing.assert_array_equal(model.embeddings, own)
    assert model.embeddings.dtype == np.float32


# Encoded texts: tokens, stop words and marked spans side by side.


STRING = "The card of Anna Lee is 4000 0012, in The Weeknd's city."
SPANS = (Span(12, 20, "NAME"), Span(24, 33, "CARD"), Span(38, 50, "D:public figure"))


def by_hand(string: str, spans: tuple[Span, ...], length: int) -> np.ndarray:
    """Character by character, token by token."""
    ids, offsets = plain_language.load_tokenizer("lm-tiny").encode(string)
    found = np.zeros((length, 3), np.int32)
    found[:, TOKEN] = PADDING
    for place, (token, (start, end)) in enumerate(list(zip(ids, offsets, strict=True))[:length]):
        left, right = end - 1, end
        while left > 0 and not string[left].isspace() and not string[left - 1].isspace():
            left -= 1
        while right < len(string) and not string[end - 1].isspace() and not string[right].isspace():
            right += 1
        kinds = [1 + KINDS.index(span.kind) for span in spans for spot in range(start, end) if span.start <= spot < span.end]
        found[place] = token, string[left:right].lower() in plain_language.STOP_WORDS, kinds[-1] if kinds else 0
    return found


@pytest.mark.parametrize("length", [4, 16, 64])
def test_planes_are_those_of_a_walk_through_the_characters(length: int) -> None:
    strings = [STRING, "to be or not, to be", "12 of \U0001f600 שלום the", "it's", ""]
    spans = [SPANS, (), (Span(0, 2, "CODE"), Span(6, 7, "ADDRESS")), (), ()]
    found = plain_language.read(Texts(strings, spans), "lm-tiny", length)
    assert (found.dtype, found.shape) == (np.int32, (5, length, 3))
    for row, (string, marked) in enumerate(zip(strings, spans, strict=True)):
        np.testing.assert_array_equal(found[row], by_hand(string, marked, length))


def test_a_stop_word_inside_a_span_is_both() -> None:
    found = plain_language.read(Texts([STRING], [SPANS]), "lm-tiny", 64)[0]
    both = (found[:, STOP] == 1) & (found[:, KIND] > 0)
    assert not plain_language.read(Texts([STRING]), "lm-tiny", 64)[:, :, KIND].any(), "nothing is marked there"
    assert plain_language.read(Texts([]), "lm-tiny", 64).shape == (0, 64, 3)
    assert both.sum() == len(plain_language.load_tokenizer("lm-tiny").encode(" The")[0])


def test_only_whole_words_are_stop_words() -> None:
    found = plain_language.read(Texts(["to them, Theodor and, and ANd"]), "lm-tiny", 64)[0]
    shown = [plain_language.load_tokenizer("lm-tiny").shown(token) for token in found[found[:, TOKEN] != PADDING, TOKEN]]
    assert "".join(text for text, stop in zip(shown, found[:, STOP], strict=False) if stop) == "to and ANd"


def test_ten_times_as_many_texts_take_about_ten_times_as_many_steps() -> None:
    """Steps are calls of functions: their number is the same on any machine, however busy it is."""
    plain_language.load_tokenizer("lm-tiny")
    steps = []
    for count in (150, 1500):
        texts = Texts([f"{STRING} Number {row}. " * 3 for row in range(count)], [SPANS] * count)
        calls: list[str] = []
        sys.setprofile(lambda _, event, __, calls=calls: calls.append(event) if event in ("call", "c_call") else None)
        try:
            plain_language.read(texts, "lm-tiny", 64)
        finally:
            sys.setprofile(None)
        steps.append(len(calls))
    assert 5 * steps[0] < steps[1] < 15 * steps[0]


# Tokens and the characters they were made of, for any text there is.


ODD = ["", " ", "a", "\U0001f600 smile \U0001f469\u200d\U0001f680", "שלום עולם 12", "مرحبا", "x\ud83dy", "\x00\n\t", "Ω≈ç√"]


@pytest.fixture(scope="module")
def bundled() -> plain_language.Tokenizer:
    return plain_language.load_tokenizer("lm-tiny")


@pytest.mark.parametrize("string", ODD)
def test_every_character_of_any_text_is_in_a_token(bundled: plain_language.Tokenizer, string: str) -> None:
    ids, offsets = bundled.encode(string)
    assert {place for start, end in offsets for place in range(start, end)} == set(range(len(string)))
    assert all(0 <= token < bundled.size for token in ids)
    assert not {bundled.bos, bundled.eos} & set(ids)
    assert bundled.encode_all(ODD)[ODD.index(string)] == (ids, offsets)


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_offsets_run_through_the_text_in_order(string: str) -> None:
    _, offsets = plain_language.load_tokenizer("lm-tiny").encode(string)
    assert all(start < end for start, end in offsets)
    assert offsets == sorted(offsets)
    assert (offsets[0][0], offsets[-1][1]) == (0, len(string)) if string else offsets == []


def test_tokens_are_shown_as_they_stand_in_the_text(bundled: plain_language.Tokenizer) -> None:
    string = "Your code is 4711, says Anna O'Neil of 12 Elm St."
    ids, offsets = bundled.encode(string)
    assert [bundled.shown(token) for token in ids] == [string[start:end] for start, end in offsets]
    assert bundled.shown(bundled.encode("\U0001f600")[0][0]) == "�"


def test_every_digit_is_a_token_of_its_own(bundled: plain_language.Tokenizer) -> None:
    ids, _ = bundled.encode("card 4000001234567890, born 1987-11-02, flat 7b")
    digits = [bundled.shown(token) for token in ids if any(letter.isdigit() for letter in bundled.shown(token))]
    assert "".join(digits) == "4000001234567890198711027"
    assert all(len(shown) == 1 for shown in digits)
    assert len({bundled.encode(str(digit))[0][0] for digit in range(10)}) == 10


def test_a_text_that_spells_a_mark_does_not_make_one(bundled: plain_language.Tokenizer) -> None:
    """Nor one of a model of the hub."""
    for mark in (plain_language.START, plain_language.END):
        ids, _ = bundled.encode(f"before {mark} after")
        assert not {bundled.bos, bundled.eos} & set(ids)
    assert bundled.bos != bundled.eos
    inner = language_models.tokenizer()
    end = inner.token_to_id("<|endoftext|>")
    assert end == language_models.SIZE - 1
    assert end in inner.encode("a <|endoftext|>").ids
    assert end not in plain_language.Tokenizer(inner, end, end).encode("a <|endoftext|>")[0]
