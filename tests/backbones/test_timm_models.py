"""timm's models through weights in a local folder, with the smallest one timm has."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file

from dpcl_core.backbones import extractor, weights
from dpcl_core.data.dataset import Images
from dpcl_core.errors import DataMissing
from tests.support.asserting import refusal_of, refuses

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")
MODEL = "test_vit.r160_in1k"
IMAGES = Images(np.random.default_rng(0).integers(0, 256, (3, 20, 30, 3), dtype=np.uint8), (20, 30, 3))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """A model with random weights, whose file (classifier included) lies in the weights folder."""
    weights.ensure_torchvision()
    import timm

    torch.manual_seed(0)
    made: torch.nn.Module = timm.create_model(MODEL, pretrained=False).eval()
    save_file(made.state_dict(), tmp_path / f"{MODEL}.safetensors")
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    return made


def by_hand(model: torch.nn.Module) -> NDArray[np.float32]:
    """The model's own path from pixels to what its classifier reads, written out."""
    settings = model.pretrained_cfg
    images = [Image.fromarray(image).resize((160, 160), Image.Resampling.BICUBIC) for image in np.asarray(IMAGES.content)]
    pixels = torch.from_numpy(np.stack([np.asarray(image) for image in images])).double() / 255
    inputs = ((pixels - torch.tensor(settings["mean"])) / torch.tensor(settings["std"])).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        pooled: NDArray[np.float32] = model.forward_head(model.forward_features(inputs), pre_logits=True).numpy()
    return pooled


def test_features_are_what_the_models_classifier_reads(model: torch.nn.Module) -> None:
    opened = extractor.load(f"timm:{MODEL}")
    found = np.concatenate(list(opened.batches(IMAGES)))
    assert found.shape == (3, opened.feature_dim) == (3, 64)
    np.testing.assert_allclose(found, by_hand(model), atol=1e-4)
    np.testing.assert_array_equal(extractor.features(f"timm:{MODEL}", IMAGES), found)


def test_identity_changes_with_the_weights(model: torch.nn.Module, tmp_path: Path) -> None:
    before = extractor.load(f"timm:{MODEL}").identity
    state = model.state_dict()
    state["norm.bias"] = state["norm.bias"] + 1
    save_file(state, tmp_path / f"{MODEL}.safetensors")
    assert extractor.load(f"timm:{MODEL}").identity != before
    assert "160" in before


@pytest.mark.parametrize(("save", "content"), [(save_file, {"wrong": torch.zeros(1)}), (torch.save, {"state_dict": {}})])
def test_weights_of_another_model_and_pickles_which_stay_closed_give_one_sentence(
    save: Callable[..., None], content: dict[str, object], model: torch.nn.Module, tmp_path: Path
) -> None:
    save(content, tmp_path / f"{MODEL}.safetensors")
    refused = str(refusal_of(extractor.load, f"timm:{MODEL}"))
    assert re.search(r"its weights .* must be a whole safetensors file", refused)


def test_weights_that_are_nowhere_say_what_to_put_where() -> None:
    with pytest.raises(DataMissing, match=rf"put {MODEL}\.safetensors into .*DPCL_WEIGHTS.*hub cannot be reached"):
        extractor.load(f"timm:{MODEL}")


@pytest.mark.parametrize("name", ["timm:no_such_network", "timm:test_vit.no_such_tag"])
def test_model_that_timm_does_not_know_is_refused(name: str) -> None:
    refuses("is no model of the installed timm", extractor.load, name)
