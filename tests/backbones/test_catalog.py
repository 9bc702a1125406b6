"""Cards: names, what a network saw, and whether it can be used, all without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcl_core import machine, paths
from dpcl_core.backbones import catalog, weights
from dpcl_core.errors import BadInput, DataMissing

BUNDLED = ["convnext-cifar100", "convnext-cifar10"]
TEST_VIT = "timm:test_vit.r160_in1k"


@pytest.mark.parametrize(
    "name",
    [
        *("", "vgg", "PIXELS", "../x", "timm:", "timm:../../etc/passwd", "timm:/etc/passwd", "timm:a/b"),
        *("timm:vit..in1k", "timm:.hidden", "timm:vit\n", "timm:" + "a" * 200),
    ],
)
def test_unknown_names_give_one_sentence(name: str) -> None:
    with pytest.raises(BadInput, match=r"(?s)^data\.backbone = .*: must be one of pixels, convnext-cifar100") as caught:
        catalog.card(name)
    assert "\n" not in caught.value.allowed


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


def test_networks_of_a_collection_do_not_pass_for_untrained() -> None:
    assert all(catalog.card(name).trained_on for name in ("timm:resnet18", "st:a/b", "hf:a/b"))


@pytest.mark.parametrize(
    ("backbone", "dataset", "refused"),
    [
        ("convnext-cifar100", "cifar100", True),
        ("convnext-cifar100", "cifar10", False),
        ("convnext-cifar100", "5-datasets", False),
        ("convnext-cifar10", "cifar10", True),
        ("convnext-cifar10", "cifar100", False),
        ("convnext-cifar10", "5-datasets", True),  # CIFAR-10 is one of the five
        ("pixels", "cifar100", False),
        ("convnext-cifar100", "own:holiday", False),
        ("timm:some_net.cifar10", "5-datasets-mnist-m", True),
    ],
)
def test_refuses_what_the_network_saw(backbone: str, dataset: str, refused: bool) -> None:
    sentence = catalog.refuses(catalog.card(backbone), dataset)
    assert (sentence is not None) is refused
    if sentence:
        offered = sentence.partition("take ")[2].split(" or ")
        assert "pixels" in offered
        assert backbone not in offered


@pytest.mark.parametrize("name", ["pixels", *BUNDLED])
def test_what_is_bundled_is_available(name: str) -> None:
    assert catalog.available(catalog.card(name)) is None


def test_missing_bundle_says_what_to_put_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "assets_dir", lambda: tmp_path)
    sentence = catalog.available(catalog.card("convnext-cifar10")) or ""
    assert "put convnext-cifar10.safetensors and convnext-cifar10.json into" in sentence
    folder = tmp_path / "backbones"
    folder.mkdir()
    (folder / "convnext-cifar10.safetensors").write_bytes(b"")
    (folder / "convnext-cifar10.json").write_text("{not json")
    with pytest.raises(DataMissing):
        weights.bundled("convnext-cifar10")


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
    with pytest.raises(BadInput, match="inside"):
        weights.local("test_vit.safetensors")
