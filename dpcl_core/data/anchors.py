"""Public examples of the kind that a method learns from: anchors, and what its public axes are fitted to.

Made of public things alone: sentences, two photographs that come with scikit-learn, and numbers drawn within public ranges.
No private row has a part in them, so that they cost no privacy; of the data only the kind and the public form are read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcl_core import paths
from dpcl_core.data import load
from dpcl_core.data.card import Kind
from dpcl_core.data.columns import Late
from dpcl_core.data.dataset import Content, Windows
from dpcl_core.data.images import Images
from dpcl_core.data.load import PublicSentences
from dpcl_core.data.texts import Sentences, Texts

if TYPE_CHECKING:
    from PIL import Image
else:
    Image = Late("PIL.Image")
N_ANCHORS = 2_000
_SEED = 20_250_919  # a public constant: the same anchors in every run
_PHOTOGRAPHS = ("china.jpg", "flower.jpg")
_SIDE = 32  # of a cut-out, where the data have no public size
_SMALLEST = 32  # pixels of a photograph that a cut-out shows at least, along a side
_WAVES = 3


def public_examples(content: Content) -> PublicSentences:
    """Public examples of the same kind and public form as these, whose rows are not looked at; the title says what they are.

    Raises BadInput for a file of public sentences that has none.
    """
    if isinstance(content, Texts | Sentences):
        return load.public_sentences(is_tagged=isinstance(content, Sentences))
    random = np.random.default_rng(_SEED)
    if isinstance(content, Images):
        made: Content = cut_outs(content.shape, random)
        title = f"{N_ANCHORS:,} cut-outs of two photographs that come with scikit-learn (CC BY)"
    elif isinstance(content, Windows):
        made, title = Windows(_signals(content.shape, random)), f"{N_ANCHORS:,} made-up sums of {_WAVES} waves"
    else:
        drawn = random.uniform(-1, 1, (N_ANCHORS, *content.shape)).astype(np.float32)
        made, title = replace(content, values=drawn), f"{N_ANCHORS:,} made-up rows, each number drawn from its public range"
    return PublicSentences(made, np.arange(N_ANCHORS, dtype=np.int64), title)


@lru_cache(maxsize=2)
def shown(kind: Kind, shape: tuple[int, ...]) -> tuple[Image.Image | str, ...]:
    """The public examples as pictures, or as sentences, in the order of their features; empty for made-up numbers and words.

    `shape`: of pictures, as a dataset's card has it; empty: they differ in size.
    """
    if kind == "text":
        sentences = load.public_sentences().content
        assert isinstance(sentences, Texts)
        return tuple(sentences.strings)
    if kind != "image":
        return ()
    size = (shape[0], shape[1], shape[2]) if shape else None
    pixels = np.asarray(cut_outs(size, np.random.default_rng(_SEED)).content)
    return tuple(Image.fromarray(one[..., 0] if one.shape[-1] == 1 else one) for one in pixels)


def cut_outs(shape: tuple[int, int, int] | None, random: np.random.Generator) -> Images:
    """Squares of the photographs at random places and sizes, in the public shape of the data, or at 32 pixels in colour.

    Made here, or as they were made for a page, which lacks the photographs and what opens them.
    """
    height, width, n_channels = shape or (_SIDE, _SIDE, 3)
    if shape is not None and (kept := paths.assets_dir() / name_of(shape)).is_file():
        return Images(np.load(kept, allow_pickle=False), shape)
    folder = files("sklearn.datasets") / "images"
    opened = []
    for name in _PHOTOGRAPHS:
        with (folder / name).open("rb") as file, Image.open(file) as read:
            opened.append(read.convert("L" if n_channels == 1 else "RGB"))
    pixels: NDArray[np.uint8] = np.empty((N_ANCHORS, height, width, n_channels), np.uint8)
    for place in range(N_ANCHORS):
        photograph = opened[place % len(opened)]
        side = int(random.integers(_SMALLEST, min(photograph.size), endpoint=True))
        left, top = (int(random.integers(0, length - side, endpoint=True)) for length in photograph.size)
        part = photograph.resize((width, height), box=(left, top, left + side, top + side))
        pixels[place] = np.asarray(part).reshape(height, width, n_channels)
    return Images(pixels, (height, width, n_channels))


def name_of(shape: tuple[int, int, int]) -> str:
    """The file of the cut-outs of this shape in the assets of a page."""
    return f"cut_outs_{'x'.join(map(str, shape))}.npy"


def _signals(shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.float32]:
    """Smooth made-up windows in [-1, 1]: on each axis a constant, as gravity is, and waves of random speed and height."""
    n_samples, n_axes = shape
    still = random.uniform(-0.5, 0.5, (N_ANCHORS, 1, n_axes))
    size, times = (_WAVES, N_ANCHORS, 1, n_axes), np.linspace(0, 2 * np.pi, n_samples)[:, None]
    speeds, phases, heights = (random.uniform(low, high, size) for low, high in ((0.5, 15.0), (0.0, 2 * np.pi), (0.0, 0.3)))
    waves = (heights * np.sin(speeds * times + phases)).sum(axis=0)
    return np.asarray(np.clip(still + waves, -1, 1), dtype=np.float32)
