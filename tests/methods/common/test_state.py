"""What is kept of an object: declared attributes, of known kinds, exactly, and nothing that a file could name."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

import dp_accounting as dp
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpcl_core.events import Claim
from dpcl_core.methods.common import state
from dpcl_core.privacy import ledger as privacy_ledger
from dpcl_core.privacy.accounting import LabelListDpEvent, LocalDpEvent, SampledGroupDpEvent, Unaccountable
from dpcl_core.privacy.ledger import Entry, Ledger
from dpcl_core.privacy.noise import Batches, noise_of
from dpcl_core.scenarios.stream import Examples
from dpcl_core.spec import Cell


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    UNKEPT = ("public",)

    public: str | None
    sums: NDArray[np.float64]
    parts: tuple[int | None, ...]


class Inner:
    KEPT = ("n", "noise")

    def __init__(self) -> None:
        self.n, self.noise = 0, noise_of("seeded", Cell(1.0, 0), "inner")


@dataclass(eq=False)
class Whole:
    KEPT = ("value", "inner", "net", "batches", "late")
    kept_records = (Released,)

    value: object = None
    inner: Inner = field(default_factory=Inner)
    net: torch.nn.Module = field(default_factory=lambda: torch.nn.Linear(3, 2))
    batches: Batches = field(default_factory=lambda: Batches(0.5, 0))
    late: Inner | None = None

    def reopen(self) -> None:
        self.late = Inner()


def back(one: Whole) -> Whole:
    """The object in another process: its state written, read, and given to a fresh one."""
    document, arrays = state.saved({"one": one})
    fresh = Whole()
    state.restore({"one": fresh}, json.loads(json.dumps(document)), arrays)
    return fresh


@pytest.mark.parametrize("value", [
    None, True, 3, 0.1 + 0.2, math.inf, "text", [1, (2, None), {"a": [3]}], {Cell(math.inf, 3): (1, 2), (1, "x"): []},
    {1, 5, 3},
])  # fmt: skip
def test_plain_values_come_back_as_they_were(value: object) -> None:
    found = back(Whole(value)).value
    assert found == value
    assert repr(found) == repr(value)


def test_arrays_and_tensors_come_back_bit_for_bit_and_shared_ones_shared() -> None:
    one = np.array([[1.5, -0.0, math.nan]], dtype=np.float32).T
    two = torch.tensor([1, 2], dtype=torch.int64)
    found = back(Whole([one, one, one.copy(), two, np.float64(0.1)])).value
    assert found[0].tobytes() == np.ascontiguousarray(one).tobytes()
    assert (found[0].dtype, found[0].shape) == (one.dtype, one.shape)
    assert found[0] is found[1]
    assert found[0] is not found[2]
    assert torch.equal(found[3], two)
    assert found[4] == np.float64(0.1)
    assert isinstance(found[4], np.float64)


def test_a_record_comes_back_without_what_is_public() -> None:
    found = back(Whole({"a": Released("network", np.arange(3.0), (1, None))})).value
    assert found["a"].public is None
    assert (found["a"].parts, found["a"].sums.tolist()) == ((1, None), [0.0, 1.0, 2.0])


def test_parts_with_a_state_of_their_own_go_on_where_they_were() -> None:
    one = Whole(late=Inner())
    one.inner.n, one.late.n = 4, 5
    assert all(map(len, (one.inner.noise.normal((7,)), one.late.noise.laplace((3,)), one.batches.draw(40))))
    fresh = back(one)
    assert (fresh.inner.n, fresh.late.n) == (4, 5)
    np.testing.assert_array_equal(fresh.inner.noise.normal((5,)), one.inner.noise.normal((5,)))
    np.testing.assert_array_equal(fresh.late.noise.words(5), one.late.noise.words(5))
    np.testing.assert_array_equal(fresh.batches.draw(100), one.batches.draw(100))
    for now, before in zip(fresh.net.parameters(), one.net.parameters(), strict=True):
        assert torch.equal(now, before)


def test_what_is_kept_does_not_change_when_learning_goes_on() -> None:
    one = Whole(np.zeros(3))
    document, arrays = state.saved({"one": one})
    one.value += 1  # type: ignore[operator]
    assert [array.tolist() for array in arrays.values() if array.shape == (3,)] == [[0.0, 0.0, 0.0]]
    assert document


@pytest.mark.parametrize("value", [Examples(np.zeros((1, 2)), np.zeros(1, np.int64)), object(), lambda: 1, 1 + 2j])
def test_examples_and_unknown_things_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be kept in a checkpoint"):
        state.saved({"one": Whole(value)})


def test_a_file_names_no_class_but_the_declared_ones() -> None:
    document, arrays = state.saved({"one": Whole()})
    document["one"]["object"]["value"] = {"record": "Examples", "fields": {}}
    with pytest.raises(KeyError):
        state.restore({"one": Whole()}, document, arrays)
    document["one"]["object"]["value"] = {"pickle": "x"}  # type: ignore[index, call-overload]
    with pytest.raises(ValueError, match="cannot have"):
        state.restore({"one": Whole()}, document, arrays)


def test_a_ledger_comes_back_entry_for_entry() -> None:
    gaussian = dp.GaussianDpEvent(1.7)
    events = [
        gaussian, dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.1, gaussian), 30), LocalDpEvent(2.0),
        SampledGroupDpEvent(2.0, (0.1, 0.25)), LabelListDpEvent(0.5, 1e-6), dp.NonPrivateDpEvent(), dp.NoOpDpEvent(),
    ]  # fmt: skip
    channels = {"replay": gaussian, "head": dp.NoOpDpEvent()}
    entries = [Entry(event, k, f"step {k}", (k, k + 1), k % 2 == 0, channels) for k, event in enumerate(events)]
    claim = Claim(math.inf, "Theorem 2", {"a": 0.1}, {"n": 3.0}, 1.25)
    ledger = Ledger(1e-5, "replace", "every", entries=entries, claimed=claim)
    again = Ledger(1e-5, "replace", "every")
    privacy_ledger.refill(again, json.loads(json.dumps(privacy_ledger.document(ledger))))
    assert again.entries == ledger.entries
    assert again.claimed == claim
    with pytest.raises(Unaccountable):
        privacy_ledger.document(Ledger(1e-5, "replace", "every", entries=[Entry(dp.LaplaceDpEvent(1.0), 0, "x", (0,))]))
