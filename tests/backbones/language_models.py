"""Stand-ins for models of the hub: folders with random weights and a small tokenizer, as a download would leave them."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dpcl_core.backbones import causal, plain_language
from dpcl_core.backbones.weights import ensure_torchvision

TEXTS = ["the first of some small texts", "another one, with the number 12", "and one more to learn tokens from"]
SIZE = 300


def forget() -> None:
    """No model of another test stays in memory."""
    for cached in (causal._frozen, plain_language.load_tokenizer, plain_language.load):
        cached.cache_clear()


def tokenizer() -> Tokenizer:
    """A BPE over bytes of 300 tokens, the last one for the end of a text."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=SIZE - 1, initial_alphabet=alphabet, show_progress=False)
    )
    inner.add_special_tokens(["<|endoftext|>"])
    return inner


def put(folder: Path, family: str = "gpt2") -> Path:
    """A model of this family and its tokenizer in the folder; "bert" is one that predicts no next token."""
    ensure_torchvision()
    import torch
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedModel,
        PreTrainedTokenizerFast,
    )

    torch.manual_seed(0)
    model: PreTrainedModel
    if family == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(vocab_size=SIZE, n_positions=32, n_embd=16, n_layer=2, n_head=2))
    elif family == "llama":
        sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
        settings = LlamaConfig(vocab_size=SIZE, hidden_size=16, intermediate_size=32, **sizes, max_position_embeddings=64)
        model = LlamaForCausalLM(settings)
    else:
        sizes = {"num_hidden_layers": 1, "num_attention_heads": 2}
        model = BertForMaskedLM(BertConfig(vocab_size=SIZE, hidden_size=16, intermediate_size=32, **sizes))
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer(), eos_token="<|endoftext|>").save_pretrained(folder)
    return folder
