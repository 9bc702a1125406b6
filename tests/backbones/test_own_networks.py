"""One's own torch networks: what is registered, which layers are refused by name, and the gradients of single examples."""

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn

import dpcl_core as dpcl
from dpcl_core import checks, engine, errors
from dpcl_core.backbones import adaptable, catalog, extractor, gpu, own_networks, weights
from dpcl_core.backbones.adaptable import Input, Pictures, in_batches
from dpcl_core.backbones.extractor import precision
from dpcl_core.data.dataset import Images, Interpolation, Vectors
from dpcl_core.events import CellFinished, TaskLearned, of_kind
from dpcl_core.methods.features import adapters, side_by_side
from dpcl_core.methods.features.side_by_side import Gradients
from tests.methods import clipped_sums
from tests.support import second_device
from tests.support.asserting import raising, refusal_of, refuses
from tests.support.own_networks import SHAPE, convolutions

pytestmark = pytest.mark.usefixtures("home")


class Of(nn.Module):
    """A network with a layer, in a function of its own where it has none."""

    def __init__(self, turned: Callable[[Tensor], Tensor] = lambda rows: rows, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(6, 5), layer or nn.Identity(), nn.Linear(5, 4)
        self.turned = turned

    def forward(self, rows: Tensor) -> Tensor:
        features: Tensor = self.last(self.turned(self.layer(self.first(rows)).relu()))
        return features


class Remembering(nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, rows: Tensor) -> Tensor:
        self.seen += rows.detach().mean(0)
        return rows


class Shuffling(nn.Module):
    """A layer of one's own that reads its neighbour."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows + 0.1 * rows.roll(1, 0)


def load(make: Callable[[], nn.Module], shape: tuple[int, ...] = (6,)) -> adaptable.Network:
    dpcl.register_network("tried", make, shape=shape)
    return adaptable.load("own:tried")


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "batch norm": (lambda: Of(layer=nn.BatchNorm1d(5)), r"mixes examples in its layer layer \(BatchNorm1d\): put GroupNorm"),
    "mean of all": (lambda: Of(lambda rows: rows - rows.mean(0)), r"mixes examples before its layer last \(Linear\)"),
    "a layer that reads its neighbour": (lambda: Of(layer=Shuffling()), r"mixes examples in its layer layer \(Shuffling\)"),
    "their number": (lambda: Of(lambda rows: rows / len(rows)), r"mixes examples before its layer last \(Linear\)"),
    "memory": (lambda: Of(layer=Remembering()), r"remembers earlier examples in layer\.seen"),
    # Noise, not dropout: coins on the few values above 0 fall alike now and then.
    "coins": (lambda: Of(lambda x: x + torch.rand_like(x)), r"gives another output each time in its layer last \(Linear\)"),
    "no row": (lambda: nn.Unflatten(1, (2, 3)), r"must give a row of finite numbers"),
    "another form": (lambda: nn.Linear(7, 2), r"must take float32 \[b, 6\] \(RuntimeError"),
    "no network": (lambda: torch.zeros(3), r"must be a torch\.nn\.Module, and its function made a Tensor"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_layer_that_mixes_examples_is_refused_by_name(name: str) -> None:
    make, said = REFUSED[name]
    refuses(rf"^data\.backbone = own:tried: {said}", load, make)


@pytest.mark.parametrize("norm", [None, nn.InstanceNorm2d, lambda n: nn.GroupNorm(1, n)])
def test_a_network_whose_layers_keep_examples_apart_is_taken(norm: Callable[[int], nn.Module] | None) -> None:
    assert load(lambda: convolutions(norm), SHAPE).feature_dim == 8


@pytest.mark.parametrize(
    ("asked", "field"),
    [({"name": "Mine"}, "name"), ({"shape": (2, 8, 8)}, "shape"), ({"shape": (0,)}, "shape"), ({"make": 3}, "make")],
)
def test_what_cannot_be_registered_is_said_in_one_sentence(asked: dict[str, Any], field: str) -> None:
    given = {"name": "mine", "make": convolutions, "shape": SHAPE, **asked}
    assert refusal_of(dpcl.register_network, **given).field == field


def test_unknown_names_and_broken_modules_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses("register_network or a module in DPCL_NETWORKS", catalog.card, "own:nobody")
    monkeypatch.setenv("DPCL_NETWORKS", "no_such_module")
    refuses(r"^DPCL_NETWORKS = no_such_module: must be a module on PYTHONPATH", catalog.names)


def test_a_module_that_is_named_is_listed_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from dpcl_core.backbones import catalog; names = catalog.names()\n"
        "assert 'own:small-cnn' in names and 'torch' not in sys.modules, names\n"
        "assert catalog.card('own:windows').reads == ('sensor', 'table', 'embedding')"
    )
    named = {"DPCL_NETWORKS": "tests.support.own_networks", "DPCL_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ".", "PATH": "", **named})


def test_random_weights_are_the_same_everywhere_and_another_network_has_other_features() -> None:
    pictures = Images(np.random.default_rng(0).integers(0, 256, (5, *SHAPE[1:], 3)).astype(np.uint8), (*SHAPE[1:], 3))
    state = torch.get_rng_state()
    found = []
    for norm in (None, None, nn.InstanceNorm2d):
        dpcl.register_network("tried", lambda norm=norm: convolutions(norm), shape=SHAPE)  # type: ignore[misc]
        found.append((extractor.features("own:tried", pictures), extractor.identity("own:tried")))
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1] != found[2][1]
    assert not np.array_equal(found[0][0], found[2][0]), "not from the cache of the first"


def test_an_example_s_features_are_the_same_alone_and_beside_others() -> None:
    load(lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh()))
    rows = Vectors(np.random.default_rng(0).uniform(-1, 1, (40, 6)).astype(np.float32))
    together = extractor.features("own:tried", rows)
    for row in (0, 17, 39):
        np.testing.assert_array_equal(extractor.features("own:tried", rows.take(np.array([row]))), together[[row]])
    refuses("reads examples of 6 numbers, and these have 5", extractor.features, "own:tried", Vectors(rows.values[:, :5]))


def whole(make: Callable[[], nn.Module] = convolutions) -> tuple[adapters.Adapted, np.ndarray, np.ndarray]:
    """A whole network somewhere in training, double precision, with pictures and labels."""
    made = adapters.fresh(load(make, SHAPE), "all", 1, range(4), 4, 0)
    generator = torch.Generator().manual_seed(7)
    for weight in made.weights.values():
        weight += 0.3 * torch.randn(weight.shape, generator=generator)
    random = np.random.default_rng(2)
    return made.module().double(), random.integers(0, 256, (9, 8, 8, 3)).astype(np.uint8), random.integers(0, 4, 9)


def sums_differ(limit: int = 64) -> bool:
    """Whether clipped sums differ from those of a loop with a batch size of one."""
    module, *examples = whole()
    assert len(list(module.trainable())) == 9
    return not clipped_sums.of_adapter(module, *examples, limit).equals_loop()


@pytest.mark.parametrize("limit", [64, 4, 1])
def test_clipped_sums_equal_a_loop_with_a_batch_size_of_one(limit: int) -> None:
    assert not sums_differ(limit)


def test_gradients_of_the_batch_s_mean_in_place_of_each_example_s_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = side_by_side.each_alone

    def of_the_mean(*given: Any) -> Tensor:
        each = honest(*given)
        return each.mean(0, keepdim=True).expand_as(each)

    monkeypatch.setattr(side_by_side, "each_alone", of_the_mean)
    assert sums_differ()


def test_one_example_changes_the_sums_of_all_layers_by_the_clipping_norm_at_most() -> None:
    assert 0.05 - 1e-5 < clipped_sums.of_adapter(*whole()).largest_change(0.05) <= 0.05 + 1e-12


def test_a_network_that_cannot_be_computed_one_by_one_is_refused_under_all_and_taken_under_a_head() -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(192, 4)

        def forward(self, pictures: Tensor) -> Tensor:
            rows: Tensor = self.layer(pictures.flatten(1))
            return rows if bool((rows.detach() > -1e9).all()) else -rows

    module, pictures, labels = whole(Asking)
    with pytest.raises(errors.BadInput, match="has a layer that cannot be computed one example at a time"):
        Gradients(module, 1.0, 64, "cpu").of(pictures, labels)


@pytest.mark.parametrize("method", ["naive", "non-cl", "peft-ensemble"])
@pytest.mark.parametrize("adapter", ["head", "all"])
def test_a_run_trains_it_within_its_budget_and_better_than_chance(method: str, adapter: str) -> None:
    """The last task, which even a method that forgets has just learned."""

    def make() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.ReLU(), nn.LayerNorm(24))

    dpcl.register_network("tried", make, shape=SHAPE)
    spec = checks.parse({
        "method": method, "params": {"adapter": adapter, "epochs": 12, "sample_rate": 0.25, "learning_rate": 0.03},
        "data": {"dataset": "digits", "train_per_class": 12, "test_per_class": 8, "backbone": "own:tried"},
        "privacy": {"epsilons": [8.0, math.inf], "noise": "seeded", "delta": 1e-3}, "seeds": [0],
        "scenario": {"kind": "class-incremental", "tasks": 2},
    })  # fmt: skip
    events = list(engine.run(spec))
    private, _ = of_kind(events, CellFinished)
    assert private.guarantee.epsilon <= 8.0 or method == "non-cl"
    learned = [one for one in of_kind(events, TaskLearned) if math.isinf(one.cell.epsilon)]
    assert (learned[-1].accuracy[-1] or 0) > 0.4, "chance is 0.1"


def test_it_is_refused_where_it_reads_no_such_data() -> None:
    dpcl.register_network("tried", convolutions, shape=SHAPE, trained_on="digits", saw=("digits",))
    asked: dict[str, Any] = {"method": "naive", "data": {"dataset": "digits", "backbone": "own:tried"}}
    refuses("was trained on digits", checks.check_run, checks.parse(asked))
    own_networks.register_network("tried", lambda: nn.Linear(6, 2), shape=(6,))
    for adapter in ("head", "all"):
        refuses(r"^data\.(backbone|dataset)", checks.check_run, checks.parse({**asked, "params": {"adapter": adapter}}))


# Networks to be adapted, the pictures they read, their batches, and what a graphics card changes.


ASKED = Input(32, 3, "bilinear")
BUNDLED = [card.name for card in catalog.CARDS.values() if card.module == "dpcl_core.backbones.bundled"]


def images(height: int, width: int, n_channels: int = 3, n: int = 3) -> Images:
    drawn = np.random.default_rng(1).integers(0, 256, (n, height, width, n_channels), dtype=np.uint8)
    return Images(drawn, (height, width, n_channels))


def kept(given: Images, asked: Input) -> np.ndarray:
    steps = Pictures(torch.nn.Identity(), asked, (0.0,) * 3, (1.0,) * 3).stored(given)
    done = []
    while True:
        try:
            done.append(next(steps))
        except StopIteration as ended:
            assert done[-1:] == [len(given)][: len(done[-1:])]
            found: np.ndarray = ended.value
            return found


KEPT: list[tuple[Images, tuple[int, ...]]] = [
    *((images(*size), (3, side, side, 3)) for size, side in {(8, 8): 8, (32, 32): 32, (20, 30): 30, (64, 48): 32}.items()),
    (Images(images(8, 8).content, None), (3, 32, 32, 3)),  # of unknown or differing sizes: at the network's
    (images(16, 16, n=0), (0, 16, 16, 3)),
]


@pytest.mark.parametrize(("given", "shape"), KEPT)
def test_pictures_are_kept_at_the_smaller_of_their_own_size_and_the_networks(given: Images, shape: tuple[int, ...]) -> None:
    found = kept(given, ASKED)
    assert (found.shape, found.dtype) == (shape, np.uint8)


def test_square_colour_pictures_are_kept_as_they_are_and_grey_ones_get_three_channels() -> None:
    colour, grey = images(16, 16), images(16, 16, 1)
    np.testing.assert_array_equal(kept(colour, ASKED), colour.content)
    np.testing.assert_array_equal(kept(grey, ASKED), np.asarray(grey.content).repeat(3, axis=3))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_small_pictures_are_enlarged_as_pillow_does(interpolation: Interpolation) -> None:
    """To within two of 256 levels: Pillow rounds between its two passes (and cuts there what leaves the range, so the
    pictures stay clear of black and white)."""
    given = Images((80 + np.asarray(images(8, 8).content) // 3).astype(np.uint8), (8, 8, 3))
    network = Pictures(nn.Identity(), Input(56, 3, interpolation), (0.0,) * 3, (1.0,) * 3)
    found = network(torch.from_numpy(kept(given, network.input_format))).permute(0, 2, 3, 1).numpy()
    by_pillow = next(given.batches(56, 3, 3, interpolation)).astype(np.float32)
    assert np.abs(found - by_pillow).max() <= 2
    assert np.abs(found - by_pillow).mean() < 0.5


@pytest.mark.parametrize("name", BUNDLED)
def test_the_networks_features_are_the_frozen_extractors(name: str) -> None:
    given = images(32, 32)
    network = adaptable.load(name)
    found = network.features(torch.from_numpy(np.asarray(given.content)))
    assert found.shape == (3, network.feature_dim)
    np.testing.assert_allclose(found.numpy(), np.concatenate(list(extractor.load(name).batches(given))), atol=1e-5)
    assert not any(parameter.requires_grad for parameter in network.features.parameters())
    assert not any(module.training for module in network.features.modules())


def test_a_timm_model_with_norms_of_its_own_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if weights.ensure_torchvision() == "absent":
        pytest.skip("torchvision is not installed")
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    made = timm.create_model("test_vit.r160_in1k", pretrained=False)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    save_file(made.state_dict(), tmp_path / "test_vit.r160_in1k.safetensors")
    monkeypatch.setenv("DPCL_WEIGHTS", str(tmp_path))
    given = images(160, 160)
    network = adaptable.load("timm:test_vit.r160_in1k")
    found = network.features(torch.from_numpy(np.asarray(given.content))).numpy()
    expected = np.concatenate(list(extractor.load("timm:test_vit.r160_in1k").batches(given)))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert [module for module in network.features.modules() if isinstance(module, nn.LayerNorm)]


# Running a network over images: order, broken rows, and memory that is too small.


RAW = np.arange(700, dtype=np.uint16).astype(np.uint8).reshape(700, 1, 1, 1)
IMAGES = Images(RAW, (1, 1, 1))
ONE_PIXEL = Input(1, 1, "bilinear")


def value(pixels: Tensor) -> Tensor:
    return pixels.reshape(len(pixels), 1).float().repeat(1, 2)


def joined(forward: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
    return np.concatenate(list(in_batches(forward, ONE_PIXEL, IMAGES, 2, "cpu")))


def test_rows_keep_their_order_and_come_in_batches() -> None:
    found = joined(value)
    np.testing.assert_array_equal(found[:, 1], RAW.ravel())
    assert found.dtype == np.float32
    assert [len(part) for part in in_batches(value, ONE_PIXEL, IMAGES, 2, "cpu")] == [0, 256, 256, 188]


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_row_that_is_not_finite_becomes_zeros_and_stays_in_place(broken: float) -> None:
    def forward(pixels: Tensor) -> Tensor:
        rows = value(pixels)
        rows[rows[:, 0] == 7, 1] = broken
        return rows

    found = joined(forward)
    expected = np.repeat(RAW.reshape(-1, 1), 2, axis=1).astype(np.float32)
    expected[RAW.ravel() == 7] = 0
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
)
def test_batch_that_does_not_fit_is_halved_until_it_does(error: Exception) -> None:
    sizes: list[int] = []

    def forward(pixels: Tensor) -> Tensor:
        sizes.append(len(pixels))
        if len(pixels) > 40:
            raise error
        return value(pixels)

    np.testing.assert_array_equal(joined(forward)[:, 0], RAW.ravel())
    assert sizes[:4] == [256, 128, 64, 32]
    assert max(sizes[4:]) == 32  # what did not fit once is not tried again


@pytest.mark.parametrize(("error", "said"), [(MemoryError(), "1x1 pixels"), (RuntimeError("shapes do not match"), "shapes")])
def test_one_image_too_large_for_memory_and_other_errors_end_it(error: Exception, said: str) -> None:
    refuses(said, joined, raising(error), error=type(error))


def test_a_card_takes_larger_batches_as_far_as_its_memory_goes() -> None:
    with second_device.attached(free=1 << 18):  # at 256 bytes a pixel, half of it holds 512 pictures of one
        parts = list(in_batches(value, ONE_PIXEL, IMAGES, 2, second_device.NAME))
    assert [len(part) for part in parts] == [0, 512, 188]
    np.testing.assert_array_equal(np.concatenate(parts)[:, 1], RAW.ravel())


# Precision and number of examples at once on a card, without one.


def test_half_precision_is_bfloat16_or_none_and_only_a_card_that_has_it_gives_other_features(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    for able in ({}, {"avx512_f": True, "avx512_bf16": False}, {"avx512_bf16": True}, {"amx_bf16": True}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: able)
        has_bfloat16 = any("bf16" in name and has for name, has in able.items())
        assert gpu.half_precision("cpu") is (torch.bfloat16 if has_bfloat16 else None)
        assert precision("cpu") == "single"
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # of an older torch
    assert gpu.half_precision("cpu") is None
    for capability, dtype in (((7, 0), None), ((7, 5), None), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)):
        with second_device.attached(capability=capability):
            assert gpu.half_precision(second_device.NAME) is dtype
            assert precision(second_device.NAME) == ("single" if dtype is None else "bfloat16")


def test_a_processor_keeps_its_number_and_a_card_fills_half_of_what_is_free() -> None:
    assert gpu.room("cpu") is None
    assert gpu.at_once(None, 12, 1.0, 64) == 12
    with second_device.attached(free=1 << 20):
        assert gpu.room(second_device.NAME) == 1 << 19
    assert gpu.at_once(float(1 << 19), 12, 1 << 13, 1024) == 64
    assert gpu.at_once(float(1 << 19), 12, 5000.0, 1024) == 64  # 104 fit
    assert gpu.at_once(float(1 << 19), 12, 5000.0, 48) == 32
    assert gpu.at_once(float(1 << 19), 12, 1e9, 64) == 1  # one is always tried


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_precisions_below_single_become_single(dtype: torch.dtype) -> None:
    assert gpu.at_least_single(dtype) is torch.float32
    assert gpu.at_least_single(torch.float64) is torch.float64


def test_what_is_recorded_is_replayed_on_new_inputs_and_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording is a stand-in that computes on its fixed places, as a graph of kernels does."""
    recorded: list[tuple[int, ...]] = []

    def eager(function: Callable[..., torch.Tensor], places: Sequence[torch.Tensor]) -> Callable[[], torch.Tensor]:
        recorded.append(tuple(places[0].shape))
        return lambda: function(*places)

    monkeypatch.setattr(gpu, "recorded", eager)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    weight = torch.ones(())
    scaled = gpu.Replayed(lambda left, right: weight * (left - right), "cuda:0")
    for size in (3, 2, 3):
        left, right = torch.rand(2, size)
        weight += 1
        assert torch.equal(scaled(left, right), weight * (left - right))
    assert recorded == [(3,), (2,)]


@pytest.mark.parametrize("error", [RuntimeError("not permitted while recording"), torch.OutOfMemoryError("out of memory")])
def test_what_cannot_be_recorded_is_called_and_memory_that_does_not_suffice_is_said(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "recorded", raising(error))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    negative = gpu.Replayed(torch.neg, "cuda:0")
    if isinstance(error, torch.OutOfMemoryError):
        with pytest.raises(torch.OutOfMemoryError):
            negative(torch.ones(2))
    else:
        assert all(torch.equal(negative(torch.ones(2)), -torch.ones(2)) for _ in range(2))


def test_nothing_is_recorded_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "recorded", None)
    assert torch.equal(gpu.Replayed(torch.neg, "cpu")(torch.ones(2)), -torch.ones(2))
