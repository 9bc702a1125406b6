"""The bundled dataset, which needs no download: scikit-learn's digits."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcl_core.data.images import Images
from dpcl_core.data.rows import PublicFacts, Rows

_INK = 15  # 16 levels of ink become 0, 15, ..., 240: exactly proportional


class Digits:
    """All digits, as the rows of a split."""

    has_sources = False

    def __len__(self) -> int:
        return len(digits()[1])

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        """See `rows.RowReader`."""
        return Rows(digits()[1][rows], {}, None)


def digits() -> tuple[Images, NDArray[np.int64]]:
    """All 1,797 digits as raw pixels [1797, 8, 8, 1] with their labels.

    The file is read directly: importing scikit-learn for it takes seconds, reading it milliseconds.
    """
    package = find_spec("sklearn")
    assert package is not None
    assert package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    pixels = (table[:, :64] * _INK).reshape(-1, 8, 8, 1)
    return Images(pixels, (8, 8, 1)), table[:, 64].astype(np.int64)
