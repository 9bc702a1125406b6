"""Which rows are usable: each is judged alone, whatever its reader raises."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcl_core.data.images import Images
from dpcl_core.data.rows import PublicFacts, Rows, usable_rows
from dpcl_core.errors import BadInput
from tests.data.making import picture


class Reader:
    """Raises for row 3 what no reader should, and for row 5 what it may."""

    has_sources = False

    def __len__(self) -> int:
        return 8

    def checked(self, rows: NDArray[np.int64], known: PublicFacts | None) -> Rows:
        if 3 in rows:
            raise OverflowError("it quotes the row")
        if 5 in rows:
            raise BadInput("row 5", "x", "must be y")
        return Rows(rows, {}, None)


def test_an_unforeseen_error_of_one_row_leaves_out_that_row_alone() -> None:
    refused: dict[int, BadInput] = {}
    assert usable_rows(Reader(), np.arange(8), None, refused).tolist() == [0, 1, 2, 4, 6, 7]
    said = [str(one) for one in refused.values()]
    assert said == ["row 3 = OverflowError: must be a row that can be read", "row 5 = x: must be y"]


def test_an_unforeseen_error_of_one_private_picture_makes_it_black(monkeypatch: pytest.MonkeyPatch) -> None:
    content, whole = [picture(9), picture(7), picture(8)], Images._decoded

    def decoded(self: Images, row: int, *rest: object) -> NDArray[np.uint8]:
        if row == 1:
            raise ZeroDivisionError
        return whole(self, row, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Images, "_decoded", decoded)
    (seen,) = Images(content, (4, 4, 1), is_private=True).batches(None, 1, 3)
    assert seen.max(axis=(1, 2, 3)).tolist() == [9, 0, 8]
    with pytest.raises(ZeroDivisionError):
        list(Images(content, (4, 4, 1)).batches(None, 1, 3))
