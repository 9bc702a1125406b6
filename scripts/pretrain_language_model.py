"""Trains the bundled language model and its tokenizer on public texts and writes them into assets/language/.

    python scripts/pretrain_language_model.py --minutes 8

The texts: the public companion of the synthetic corpus (other seeds, other people, partly other templates; none of its own
texts) and sentences of the English Wikipedia (CC BY-SA), looked for in the folder DPCL_DATA. A few companion texts are
followed by the question for their label and the answer, in the wording of the methods: a model that never saw the
question's form learns little from a few hundred noisy steps, one that saw thousands has nothing left to learn. Minutes are
processor time: the learning rate follows their share used, so that training ends annealed on a busy or slow machine too.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import tokenizers
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch import Tensor
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dpcl_core import paths
from dpcl_core.backbones import causal
from dpcl_core.backbones.packaged import BUNDLED, Shape
from dpcl_core.backbones.plain_language import END, START, Tokenizer
from dpcl_core.backbones.weights import ensure_torchvision
from dpcl_core.data import synthetic
from dpcl_core.data.texts import Texts
from dpcl_core.methods.language.public_text import template

SHAPE = Shape(n_blocks=2, n_heads=4, width=64, context=256, size=1536)
COMPANIONS, ANSWERED, COMPANION_SEED = 30_000, 1_500, 7
BATCH = 4  # after 15 seconds of the processor 3.4 nats a token on held-out texts, with batches of 16 still 4.5
RATE, WARM_UP, DECAY = 4e-3, 0.03, 0.05
HELD_OUT = 0.05
RECIPE = f"AdamW, {RATE} falling as a cosine, weight decay {DECAY}, batches of {BATCH} rows of {SHAPE.context} tokens"


def public_texts() -> dict[str, list[str]]:
    """The texts by where they come from, `ANSWERED` of the companion's with question and answer.

    Raises FileNotFoundError where the Wikipedia sentences are not in DPCL_DATA.
    """
    folder = paths.data_dir()
    if folder is None:
        raise FileNotFoundError("name the folder of datasets in DPCL_DATA")
    sentences = parquet.read_table(folder / "anchors_wikipedia" / "anchors.parquet", columns=["text"])
    companion = synthetic.labelled_companion(COMPANIONS, COMPANION_SEED)
    names = [(source, label) for source, labels in synthetic.classes() for label in labels]
    assert isinstance(companion.images, Texts)
    strings = companion.images.strings
    with_answers = [
        f"{string}{template(source)} {label}"
        for string, (source, label) in zip(strings, (names[place] for place in companion.labels), strict=True)
    ]
    return {
        "companion": list(strings[ANSWERED:]),
        "companion with answers": with_answers[:ANSWERED],
        "wikipedia": [str(text) for text in sentences["text"].to_pylist()],
    }


def train_tokenizer(texts: Sequence[str], size: int) -> tokenizers.Tokenizer:
    """BPE over bytes (no text it cannot read) of at most `size` tokens, in which every digit is a token of its own."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)]
    )
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=size, special_tokens=[START, END], initial_alphabet=alphabet, show_progress=False),
    )
    return inner


def rows(encoded: Sequence[Sequence[int]], tokenizer: Tokenizer, context: int, order: random.Random) -> NDArray[np.int64]:
    """The texts in random order, each between its two marks, in rows [n, context + 1] that begin where a text begins.

    What does not fit behind a row's last text is cut off: a text is read from its start here, as it will be later.
    """
    made: list[list[int]] = []
    row: list[int] = []
    for place in order.sample(range(len(encoded)), len(encoded)):
        row += [tokenizer.bos, *encoded[place], tokenizer.eos]
        if len(row) > context:
            made.append(row[: context + 1])
            row = []
    return np.asarray(made, dtype=np.int64).reshape(-1, context + 1)


def batches(encoded: Sequence[Sequence[int]], tokenizer: Tokenizer, context: int, seed: int) -> Iterator[Tensor]:
    """Rows of the texts, `BATCH` at a time, without end; in an order of their own in each pass."""
    order = random.Random(seed)
    while True:
        table = rows(encoded, tokenizer, context, order)
        for start in range(0, len(table), BATCH):
            yield torch.from_numpy(table[start : start + BATCH])


def rate(share: float) -> float:
    """Step size after this share of the training: a short rise, then a cosine down to a hundredth."""
    if share < WARM_UP:
        return RATE * share / WARM_UP
    return RATE * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, (share - WARM_UP) / (1 - WARM_UP)))))


def train(model: torch.nn.Module, source: Iterator[Tensor], minutes: float) -> int:
    """Trains in place for this many minutes of processor time; returns the number of steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=DECAY)
    began, step, shown = time.process_time(), 0, 0.0
    model.train()
    while (share := (time.process_time() - began) / (60 * minutes)) < 1:
        batch = next(source)
        for group in optimizer.param_groups:
            group["lr"] = rate(share)
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if share > shown + 0.05:
            shown = share
            print(f"{share:4.0%}  step {step}  {loss.item():.3f} nats a token", flush=True)
    return step


def held_out_loss(model: torch.nn.Module, texts: Sequence[Sequence[int]], tokenizer: Tokenizer, context: int) -> float:
    """Mean nats a token (the mark of the end not counted) of texts read each on its own, from its start."""
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for text in texts:
            ids = torch.tensor([[tokenizer.bos, *text[: context - 1]]])
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits
            total += float(functional.cross_entropy(logits[0], ids[0, 1:], reduction="sum"))
            count += ids.shape[1] - 1
    return total / count


def write(folder: Path, model: torch.nn.Module, inner: tokenizers.Tokenizer, facts: Mapping[str, object]) -> None:
    """The three files; weights in half precision, the tied last layer left out."""
    folder.mkdir(parents=True, exist_ok=True)
    half = {name: values.half().contiguous() for name, values in model.state_dict().items() if name != "lm_head.weight"}
    weights, tokenizer = save(half), inner.to_str().encode()
    (folder / f"{BUNDLED}.safetensors").write_bytes(weights)
    (folder / "tokenizer.json").write_bytes(tokenizer)
    card = {
        "name": BUNDLED,
        "architecture": "GPT-2",
        "shape": asdict(SHAPE),
        "n_parameters": sum(values.numel() for values in half.values()),
        **facts,
        "trained_on": str(date.today()),
        "script": "scripts/pretrain_language_model.py",
        "sha256": sha256(weights).hexdigest(),
        "tokenizer_sha256": sha256(tokenizer).hexdigest(),
    }
    (folder / f"{BUNDLED}.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Reads the texts, trains tokenizer and model, tests, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=paths.assets_dir() / "language")
    arguments = parser.parse_args()
    ensure_torchvision()
    torch.manual_seed(arguments.seed)
    shuffle = random.Random(arguments.seed)
    training, testing = {}, {}
    for source, texts in public_texts().items():
        shuffle.shuffle(texts)
        n_held_out = round(HELD_OUT * len(texts))
        training[source], testing[source] = texts[n_held_out:], texts[:n_held_out]
    inner = train_tokenizer([text for texts in training.values() for text in texts], SHAPE.size)
    ready = Tokenizer(inner, inner.token_to_id(START), inner.token_to_id(END))
    encoded = {source: [ids for ids, _ in ready.encode_all(texts)] for source, texts in training.items()}
    saw = {source: {"texts": len(texts), "tokens": sum(map(len, texts))} for source, texts in encoded.items()}
    model = causal.fresh(SHAPE)
    together = [text for texts in encoded.values() for text in texts]
    n_steps = train(model, batches(together, ready, SHAPE.context, arguments.seed), arguments.minutes)
    for values in model.state_dict().values():
        values.copy_(values.half())  # tested as it is stored
    losses = {
        source: round(held_out_loss(model, [ids for ids, _ in ready.encode_all(texts)], ready, SHAPE.context), 4)
        for source, texts in testing.items()
    }
    print(f"{n_steps} steps; held out: {losses}")
    facts = {"saw": saw, "held_out_texts": {s: len(t) for s, t in testing.items()}, "held_out_nats_per_token": losses}
    write(arguments.out, model, inner, {**facts, "recipe": RECIPE, "processor_minutes": arguments.minutes, "steps": n_steps})


if __name__ == "__main__":
    main()
