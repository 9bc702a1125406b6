"""Where language models come from, what is said where there is none, and what belongs together with them."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import RepositoryNotFoundError

from dpcl_core import checks, paths
from dpcl_core.backbones import catalog, causal, extractor, packaged, plain_language, weights
from dpcl_core.data import files
from dpcl_core.errors import BadInput, DataMissing
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.language.params import LanguageParams
from tests.backbones import language_models
from tests.support.tiers import quick
from tests.support.waiting import python

MODEL = "somebody/gpt2"


@pytest.fixture(autouse=True)
def unread() -> None:
    """No model of another test in memory."""
    for cached in (causal._frozen, plain_language.load_tokenizer, plain_language.load):
        cached.cache_clear()


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the bundled model that may be harmed."""
    shutil.copytree(paths.assets_dir() / "language", tmp_path / "assets" / "language")
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path / "assets")
    return tmp_path / "assets" / "language"


def test_the_bundle_is_small_and_says_what_it_saw() -> None:
    bundle = packaged.bundled()
    folder = bundle.weights.parent
    assert sum(path.stat().st_size for path in folder.iterdir()) < 12e6
    facts = json.loads((folder / "lm-tiny.json").read_text())
    assert set(facts["saw"]) == {"companion", "companion with answers", "wikipedia"}
    assert catalog.card("lm-tiny").saw == ()
    assert all(0 < loss < 8 for loss in facts["held_out_nats_per_token"].values())
    assert bundle.shape.size == plain_language.load_tokenizer("lm-tiny").size


@pytest.mark.parametrize("missing", ["lm-tiny.safetensors", "lm-tiny.json", "tokenizer.json"])
def test_a_missing_file_of_the_bundle_says_what_to_put_where(bundle: Path, missing: str) -> None:
    (bundle / missing).unlink()
    sentence = catalog.available(catalog.card("lm-tiny")) or ""
    assert "put lm-tiny.safetensors, tokenizer.json, lm-tiny.json into" in sentence
    with pytest.raises(DataMissing):
        plain_language.load()


def test_files_that_are_not_the_cards_are_refused(bundle: Path) -> None:
    for name, read in (("lm-tiny.safetensors", plain_language.load), ("lm-tiny.safetensors", causal._bundled)):
        content = (bundle / name).read_bytes()
        (bundle / name).write_bytes(content[:-1] + b"x")
        with pytest.raises(BadInput, match="must be the one on its card"):
            read()
        (bundle / name).write_bytes(content)
    (bundle / "tokenizer.json").write_text("{}")
    with pytest.raises(BadInput, match="must be the one on its card"):
        plain_language.load_tokenizer("lm-tiny")


@pytest.mark.parametrize("name", ["hf:", "hf:a/b/c", "hf:../x", "hf:a..b/c", "hf:a b", "hf:a\n", "hf:" + "x" * 99])
def test_names_that_no_model_can_have_are_refused_unasked(name: str) -> None:
    with pytest.raises(BadInput, match=r"(?s)^data\.backbone = .*: must be hf:OWNER/NAME") as caught:
        catalog.card(name)
    assert "\n" not in caught.value.allowed


@pytest.mark.parametrize("name", ["hf:gpt2", "hf:openai-community/gpt2", "hf:meta-llama/Llama-2-7b-hf"])
def test_a_name_that_a_model_can_have_makes_a_card(name: str) -> None:
    card = catalog.card(name)
    assert (card.name, card.is_language_model, card.reads) == (name, True, ("text",))


def test_without_the_hub_a_folder_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = catalog.card(f"hf:{MODEL}")
    sentence = catalog.available(card) or ""
    assert "put a folder somebody--gpt2 with its config.json" in sentence
    assert "hub cannot be reached" in sentence
    with pytest.raises(DataMissing, match="somebody--gpt2"):
        plain_language.load_tokenizer(card.name)
    with pytest.raises(DataMissing, match="somebody--gpt2"):
        causal.load(card.name)
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    language_models.put(tmp_path / "somebody--gpt2")
    assert catalog.available(card) is None
    assert plain_language.load_tokenizer(card.name).size == language_models.SIZE


@pytest.mark.parametrize("family", quick(1, ["llama", "gpt2"]))
def test_a_fresh_process_reads_texts_before_it_opens_the_model(tmp_path: Path, family: str) -> None:
    """In the order of a run, and with nothing imported before: some families' settings ask for torchvision by themselves."""
    language_models.put(tmp_path / f"somebody--{family}", family)
    code = (
        "from dpcl_core.backbones import plain_language\n"
        f"plain_language.load_tokenizer('hf:somebody/{family}')\n"
        "from dpcl_core.backbones import causal\n"
        f"causal.load('hf:somebody/{family}', 'cpu')\n"
    )
    python("-c", code, env={**os.environ, "DPCL_WEIGHTS": str(tmp_path), "HF_HUB_OFFLINE": "1"})


@pytest.mark.parametrize("name", [f"hf:{MODEL}", "timm:vit_tiny_patch16_224"])
def test_visitors_make_a_shared_server_download_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "is_reachable", lambda: True)
    card = catalog.card(name)
    assert catalog.available(card) is None
    monkeypatch.setenv("DPCL_SHARED", "usual")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", _offline_alone)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", lambda *_: pytest.fail("it was downloaded"))
    assert weights.WITHHELD in (catalog.available(card) or "")
    with pytest.raises(DataMissing, match=weights.DOWNLOADS):
        weights.from_hub("timm/x", "x") if name.startswith("timm:") else plain_language.load_tokenizer(name)
    monkeypatch.setenv(weights.DOWNLOADS, "yes")
    assert catalog.available(card) is None


def _offline_alone(*_: object, local_files_only: bool, **__: object) -> str:
    assert local_files_only
    raise FileNotFoundError


def test_a_model_of_the_hub_is_downloaded_without_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, asked = language_models.put(tmp_path / "download"), []

    def download(name: str, *, allow_patterns: list[str], local_files_only: bool) -> str:
        asked.append((name, tuple(allow_patterns), local_files_only))
        return str(folder)

    monkeypatch.setattr(files, "is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert catalog.available(catalog.card(f"hf:{MODEL}")) is None
    assert plain_language.load_tokenizer(f"hf:{MODEL}").eos == language_models.SIZE - 1
    assert causal.load(f"hf:{MODEL}").config.vocab_size == language_models.SIZE
    assert {name for name, _, _ in asked} == {MODEL}
    assert not any(pattern.endswith((".bin", ".pt", "*")) for _, patterns, _ in asked for pattern in patterns)
    assert not any(offline for _, _, offline in asked)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RepositoryNotFoundError.__new__(RepositoryNotFoundError), r"^data\.backbone = hf:somebody/gpt2: must be the name"),
        (ConnectionError("a long story\nin lines"), r"somebody--gpt2 .*did not give it \(ConnectionError\)$"),
    ],
)
def test_a_download_that_fails_gives_one_sentence(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(files, "is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", failing)
    for load in (plain_language.load_tokenizer, causal.load):
        with pytest.raises(BadInput, match=said) as caught:
            load(f"hf:{MODEL}")
        assert isinstance(caught.value, DataMissing) == isinstance(error, ConnectionError)
        assert "\n" not in str(caught.value)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    folder = language_models.put(tmp_path / "somebody--gpt2")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(BadInput, match="must have a tokenizer that transformers can read") as caught:
        plain_language.load_tokenizer(f"hf:{MODEL}")
    assert "\n" not in str(caught.value)


def test_a_language_model_gives_no_features() -> None:
    with pytest.raises(BadInput, match="must be a backbone that gives features"):
        extractor.load("lm-tiny")


# Texts, language models and methods that train them belong together; anything else is one sentence before a run starts.


STAND_IN = "trains-texts"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that reads texts, whatever else the catalog holds."""
    made = replace(methods.card("cosine"), name=STAND_IN, title="Stand-in", params=LanguageParams, refuses=lambda *_: None)
    monkeypatch.setattr(methods, "CARDS", {**methods.CARDS, STAND_IN: made})


@pytest.mark.parametrize(
    ("method", "dataset", "backbone", "field", "named"),
    [
        ("cosine", "pii-synthetic", "pixels", "data.backbone", "st:NAME"),
        ("cosine", "pii-synthetic", "lm-tiny", "data.backbone", "st:NAME"),
        ("cosine", "digits", "lm-tiny", "data.backbone", "language model"),
        *((STAND_IN, dataset, "lm-tiny", "data.dataset", "Stand-in trains") for dataset in ("digits", "har-wisdm")),
        (STAND_IN, "digits", "pixels", "data.dataset", "texts"),
        (STAND_IN, "pii-synthetic", "pixels", "data.backbone", "lm-tiny, smollm2 or hf:NAME"),
        (STAND_IN, "pii-synthetic", "vit-cifar100", "data.backbone", "language model"),
        (STAND_IN, "pii-synthetic", "hf:no such", "data.backbone", "hf:OWNER/NAME"),
        (STAND_IN, "pii-synthetic", "hf:nobody/nothing", "data.backbone", "nobody--nothing"),
        (STAND_IN, "pii-synthetic", "gpt2", "data.backbone", "hf:NAME"),
    ],
)
def test_what_does_not_belong_together_is_refused(method: str, dataset: str, backbone: str, field: str, named: str) -> None:
    with pytest.raises(BadInput) as caught:
        checks.check_run(checks.parse({"method": method, "data": {"dataset": dataset, "backbone": backbone}}))
    assert caught.value.field == field
    assert named in caught.value.allowed
    assert "\n" not in str(caught.value)


def test_texts_a_language_model_and_a_method_that_trains_it_pass() -> None:
    raw = {"method": STAND_IN, "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"}}
    checks.check_run(checks.parse({**raw, "scenario": {"kind": "source-incremental"}}))


def test_texts_longer_than_the_model_can_look_back_are_refused() -> None:
    raw = {"method": STAND_IN, "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"}, "params": {"length": 217}}
    with pytest.raises(BadInput, match="at most 216") as caught:
        checks.check_run(checks.parse(raw))
    assert caught.value.field == "params.length"


def test_the_card_says_how_far_the_bundled_model_looks_back() -> None:
    card = catalog.card("lm-tiny")
    assert card.context == packaged.bundled().shape.context
    assert card.size_mb == pytest.approx(packaged.bundled().weights.stat().st_size / 1e6, abs=0.05)


@pytest.mark.parametrize(
    ("backbone", "dataset", "refused"),
    [
        *(("pixels", "pii-synthetic", True), ("convnext-cifar100", "ag_news", True)),
        *(("lm-tiny", "digits", True), ("lm-tiny", "har-wisdm", True)),
        *(("lm-tiny", "pii-synthetic", False), ("lm-tiny", "pecl-six", False)),
    ],
)
def test_a_backbone_refuses_what_it_cannot_read(backbone: str, dataset: str, refused: bool) -> None:
    sentence = catalog.refuses(catalog.card(backbone), dataset)
    assert (sentence is not None) is refused
    assert not refused or "text" in (sentence or "")
