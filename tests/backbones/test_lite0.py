"""EfficientNet-Lite0: the published weights, folded without a change, at every resolution it offers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core.backbones import catalog, extractor, timm_models
from dpcl_core.backbones.timm_models import TimmExtractor
from dpcl_core.data.dataset import Images
from tests.support.asserting import refuses
from tests.support.watching import watched

CARD = catalog.card("lite0")
pytestmark = pytest.mark.skipif(catalog.available(CARD) is not None, reason="lite0 is not here: dpcl fetch lite0")

KNOWN_PLACES = [701, 437, 540, 0, 500, 999]
KNOWN_LOGITS = [3.4702, 3.4477, 3.2483, 0.266, 0.3422, -0.4448]


def pictures(n: int, side: int = 48) -> NDArray[np.uint8]:
    """Smooth colour gradients [n, side, side, 3], another one each."""
    y, x = np.mgrid[:side, :side] / side
    planes = [np.stack([x * (k + 1), y * (k + 2), (x + y) / 2], axis=2) % 1 for k in range(n)]
    return (255 * np.stack(planes)).astype(np.uint8)


def features(images: NDArray[np.uint8], resolution: int | None = None) -> NDArray[np.float32]:
    content = Images(images, images.shape[1:])  # type: ignore[arg-type]
    return np.concatenate(list(extractor.load("lite0", resolution=resolution).batches(content)))


@pytest.fixture
def unfolded() -> torch.nn.Module:
    return timm_models.frozen(CARD)


def test_published_weights_give_the_known_logits(unfolded: torch.nn.Module) -> None:
    # Of the published checkpoint in timm's own network, before any conversion (2026-11-22).
    ramp = torch.linspace(-1, 1, 3 * 224 * 224).reshape(1, 3, 224, 224)
    with torch.inference_mode():
        logits = unfolded(ramp)[0]
    torch.testing.assert_close(logits[KNOWN_PLACES], torch.tensor(KNOWN_LOGITS), atol=2e-3, rtol=0)
    assert logits.argmax() == KNOWN_PLACES[0]


def test_folding_changes_nothing_beyond_rounding(unfolded: torch.nn.Module) -> None:
    opened = extractor.load("lite0")
    assert isinstance(opened, TimmExtractor)
    batch = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whole = unfolded.forward_head(unfolded.forward_features(batch), pre_logits=True)  # type: ignore[operator]
        torch.testing.assert_close(opened.network(batch), whole, atol=1e-4, rtol=1e-4)
    assert not [module for module in opened.network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    kept = [module for module in unfolded.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert kept, "the shared one is as before"


def test_features_do_not_depend_on_the_pictures_beside_them() -> None:
    given = pictures(20)
    alone = np.concatenate([features(given[row : row + 1], 96) for row in (0, 7, 19)])
    np.testing.assert_array_equal(features(given, 96)[[0, 7, 19]], alone)


def test_pictures_are_kept_as_they_are_computed_and_shared_by_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timm_models, "_KEPT_AT_ONCE", 4)
    computed: list[int] = []
    watched(monkeypatch, TimmExtractor, "_computed", lambda _, given: computed.append(len(given[2])))
    given = pictures(11)
    stopped = extractor.load("lite0", resolution=96).batches(Images(given, (48, 48, 3)))
    assert [len(next(stopped)) for _ in range(3)] == [0, 4, 4]
    stopped.close()  # type: ignore[attr-defined]
    whole = features(given, 96)
    assert computed == [4, 4, 3], "what was done when it stopped is not done again"
    np.testing.assert_array_equal(features(given[::2], 96), whole[::2])
    assert computed == [4, 4, 3], "a part of the pictures needs nothing new"


@pytest.mark.parametrize("resolution", CARD.resolutions)
def test_every_resolution_gives_features_and_an_identity_of_its_own(resolution: int) -> None:
    found = features(pictures(2), resolution)
    assert found.shape == (2, 1280)
    assert np.isfinite(found).all()
    assert str(resolution) in extractor.load("lite0", resolution=resolution).identity


def test_any_other_file_is_refused_before_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "load", lambda *given, **options: pytest.fail("it was opened"))
    (tmp_path / "other.pth").write_bytes(b"anything")
    refuses("its SHA-256 differs", timm_models.convert, tmp_path / "other.pth", tmp_path)


def test_other_resolutions_are_refused_in_a_sentence() -> None:
    refuses(r"= 97: must be one of 224, 160, 128, 96 with data.backbone = lite0$", extractor.load, "lite0", resolution=97)
    refuses(r"^data.resolution = 96: must be left out with data.backbone = pixels$", extractor.load, "pixels", resolution=96)
