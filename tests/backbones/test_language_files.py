"""Cards of backbones; where language models come from, what is said where there is none, and what belongs together."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import RepositoryNotFoundError

from dpcl_core import checks, machine, paths
from dpcl_core.backbones import catalog, causal, extractor, packaged, plain_language, weights
from dpcl_core.data import files
from dpcl_core.errors import DataMissing
from dpcl_core.methods import catalog as methods
from dpcl_core.methods.language.params import LanguageParams
from tests.backbones import language_models
from tests.data.making import put
from tests.support.asserting import raising, refusal_of, refuses
from tests.support.tiers import quick
from tests.support.waiting import python

MODEL = "somebody/gpt2"


@pytest.fixture(autouse=True)
def unread() -> None:
    language_models.forget()


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the bundled model that may be harmed."""
    shutil.copytree(paths.assets_dir() / "language", tmp_path / "assets" / "language")
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path / "assets")
    return tmp_path / "assets" / "language"


def test_the_bundle_is_small_and_says_what_it_saw() -> None:
    bundle, card = packaged.bundled(), catalog.card("lm-tiny")
    folder = bundle.weights.parent
    assert sum(path.stat().st_size for path in folder.iterdir()) < 12e6
    facts = json.loads((folder / "lm-tiny.json").read_text())
    assert set(facts["saw"]) == {"companion", "companion with answers", "wikipedia"}
    assert all(0 < loss < 8 for loss in facts["held_out_nats_per_token"].values())
    assert bundle.shape.size == plain_language.load_tokenizer("lm-tiny").size
    assert (card.saw, card.context) == ((), bundle.shape.context)
    assert card.size_mb == pytest.approx(bundle.weights.stat().st_size / 1e6, abs=0.05)


@pytest.mark.parametrize("missing", ["lm-tiny.safetensors", "lm-tiny.json", "tokenizer.json"])
def test_a_missing_file_of_the_bundle_says_what_to_put_where(bundle: Path, missing: str) -> None:
    (bundle / missing).unlink()
    assert "put lm-tiny.safetensors, tokenizer.json, lm-tiny.json into" in (catalog.available(catalog.card("lm-tiny")) or "")
    refusal_of(plain_language.load, error=DataMissing)


def test_files_that_are_not_the_cards_are_refused(bundle: Path) -> None:
    for name, read in (("lm-tiny.safetensors", plain_language.load), ("lm-tiny.safetensors", causal._bundled)):
        content = (bundle / name).read_bytes()
        (bundle / name).write_bytes(content[:-1] + b"x")
        refuses("must be the one on its card", read)
        (bundle / name).write_bytes(content)
    (bundle / "tokenizer.json").write_text("{}")
    refuses("must be the one on its card", plain_language.load_tokenizer, "lm-tiny")


def test_without_the_hub_a_folder_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = catalog.card(f"hf:{MODEL}")
    sentence = catalog.available(card) or ""
    assert "put a folder somebody--gpt2 with its config.json" in sentence
    assert "hub cannot be reached" in sentence
    refuses("somebody--gpt2", plain_language.load_tokenizer, card.name, error=DataMissing)
    refuses("somebody--gpt2", causal.load, card.name, error=DataMissing)
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
    monkeypatch.setattr(files, "is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", raising(error))
    for load in (plain_language.load_tokenizer, causal.load):
        refusal = refusal_of(load, f"hf:{MODEL}")
        assert re.search(said, str(refusal))
        assert isinstance(refusal, DataMissing) == isinstance(error, ConnectionError)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    (language_models.put(tmp_path / "somebody--gpt2") / "tokenizer.json").unlink()
    refuses("must have a tokenizer that transformers can read", plain_language.load_tokenizer, f"hf:{MODEL}")


def test_a_language_model_gives_no_features() -> None:
    refuses("must be a backbone that gives features", extractor.load, "lm-tiny")


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
        *(("cosine", "pii-synthetic", name, "data.backbone", "st:NAME") for name in ("pixels", "lm-tiny")),
        ("cosine", "digits", "lm-tiny", "data.backbone", "language model"),
        *((STAND_IN, dataset, "lm-tiny", "data.dataset", "Stand-in trains") for dataset in ("digits", "har-wisdm")),
        (STAND_IN, "digits", "pixels", "data.dataset", "texts"),
        *((STAND_IN, "pii-synthetic", name, "data.backbone", named) for name, named in {
            "pixels": "lm-tiny, smollm2 or hf:NAME", "vit-cifar100": "language model", "hf:no such": "hf:OWNER/NAME",
            "hf:nobody/nothing": "nobody--nothing", "gpt2": "hf:NAME",
        }.items()),
    ],
)  # fmt: skip
def test_what_does_not_belong_together_is_refused(method: str, dataset: str, backbone: str, field: str, named: str) -> None:
    spec = checks.parse({"method": method, "data": {"dataset": dataset, "backbone": backbone}})
    refusal = refusal_of(checks.check_run, spec)
    assert refusal.field == field
    assert named in refusal.allowed


def test_texts_longer_than_the_model_can_look_back_are_refused_and_others_pass() -> None:
    raw = {"method": STAND_IN, "data": {"dataset": "pii-synthetic", "backbone": "lm-tiny"}}
    checks.check_run(checks.parse({**raw, "scenario": {"kind": "source-incremental"}}))
    refusal = refusal_of(checks.check_run, checks.parse({**raw, "params": {"length": 217}}))
    assert refusal.field == "params.length"
    assert "at most 216" in refusal.allowed


# Cards: names, what a network saw, and whether it can be used, all without torch.


TEST_VIT = "timm:test_vit.r160_in1k"


UNKNOWN = {
    "one of pixels, convnext-cifar100": [
        *("", "vgg", "PIXELS", "../x", "timm:", "timm:../../etc/passwd", "timm:/etc/passwd", "timm:a/b"),
        *("timm:vit..in1k", "timm:.hidden", "timm:vit\n", "timm:" + "a" * 200),
    ],
    "hf:OWNER/NAME": ["hf:", "hf:a/b/c", "hf:../x", "hf:a..b/c", "hf:a b", "hf:a\n", "hf:" + "x" * 99],
    "st:OWNER/NAME": ["st:../../etc"],
}


@pytest.mark.parametrize(("must", "name"), [(must, name) for must, names in UNKNOWN.items() for name in names])
def test_unknown_names_give_one_sentence(must: str, name: str) -> None:
    refuses(rf"^data\.backbone = .*: must be {must}", catalog.card, name)


def test_a_name_of_a_collection_makes_a_card_that_does_not_pass_for_untrained() -> None:
    for name in ("hf:gpt2", "hf:openai-community/gpt2", "hf:meta-llama/Llama-2-7b-hf"):
        card = catalog.card(name)
        assert (card.name, card.is_language_model, card.reads) == (name, True, ("text",))
    assert all(catalog.card(name).trained_on for name in ("timm:resnet18", "st:a/b", "hf:a/b"))


@pytest.mark.parametrize(
    ("name", "saw"),
    [
        ("timm:vit_base_patch16_224.augreg_in21k_ft_in1k", ("imagenet-21k", "imagenet-1k")),
        ("timm:resnet18", ()),
        ("timm:some_net.cifar10", ("cifar10",)),
    ],
)
def test_timm_names_tell_what_was_seen(name: str, saw: tuple[str, ...]) -> None:
    assert catalog.card(name).saw == saw


@pytest.mark.parametrize("card", catalog.CARDS.values(), ids=lambda card: card.name)
def test_only_what_has_no_weights_was_trained_on_nothing(card: catalog.BackboneCard) -> None:
    """An empty list of refused datasets says nothing of that: public texts have no name here."""
    assert (card.trained_on is None) == (card.size_mb == 0) == (card.seen == "nothing")
    assert all(name in card.seen for name in card.saw)
    assert ("none of the datasets here is known" in card.seen) is (card.trained_on is not None and not card.saw)


REFUSED = {  # whether a backbone refuses a dataset, which it saw or cannot read
    "convnext-cifar100": {"cifar100": True, "ag_news": True, "cifar10": False, "5-datasets": False, "own:holiday": False},
    "convnext-cifar10": {"cifar10": True, "cifar100": False, "5-datasets": True},  # CIFAR-10 is one of the five
    "pixels": {"cifar100": False, "pii-synthetic": True},
    "timm:some_net.cifar10": {"5-datasets-mnist-m": True},
    "lm-tiny": {"digits": True, "har-wisdm": True, "pii-synthetic": False, "pecl-six": False},
    **{name: {"digits": True, "ag_news": False} for name in ("minilm", "hashed-text")},
}


@pytest.mark.parametrize("backbone", REFUSED)
def test_a_backbone_refuses_what_it_saw_and_what_it_cannot_read(backbone: str) -> None:
    for dataset, refused in REFUSED[backbone].items():
        sentence = catalog.refuses(catalog.card(backbone), dataset)
        assert (sentence is not None) is refused, dataset
        if refused and "text" not in str(sentence):  # it saw them, and another backbone did not
            offered = str(sentence).partition("take ")[2].split(" or ")
            assert "pixels" in offered
            assert backbone not in offered


def test_missing_bundle_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert catalog.available(catalog.card("convnext-cifar10")) is None
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path)
    assert catalog.available(catalog.card("pixels")) is None
    sentence = catalog.available(catalog.card("convnext-cifar10")) or ""
    assert "put convnext-cifar10.safetensors and convnext-cifar10.json into" in sentence
    put(tmp_path / "backbones" / "convnext-cifar10.safetensors", b"")
    put(tmp_path / "backbones" / "convnext-cifar10.json", "{not json")
    refusal_of(weights.bundled, "convnext-cifar10", error=DataMissing)


def test_timm_weights_are_wanted_until_they_lie_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(machine, "find_spec", lambda name: object())
    card = catalog.card(TEST_VIT)
    sentence = catalog.available(card) or ""
    assert "put test_vit.r160_in1k.safetensors into" in sentence
    assert "DPCL_WEIGHTS" in sentence
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    (tmp_path / "test_vit.r160_in1k.safetensors").write_bytes(b"x")
    assert catalog.available(card) is None


def test_timm_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_spec", lambda name: None if name == "timm" else object())
    assert catalog.available(catalog.card(TEST_VIT)) == "needs timm: pip install 'dpcl[vision]'"


def test_weights_link_that_leads_out_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, folder = tmp_path / "secret.safetensors", tmp_path / "weights"
    secret.write_bytes(b"x")
    folder.mkdir()
    (folder / "test_vit.safetensors").symlink_to(secret)
    monkeypatch.setenv("DPCL_WEIGHTS", str(folder))
    refuses("inside", weights.local, "test_vit.safetensors")
