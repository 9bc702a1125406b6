"""Tables of matched lists hold exactly what was said."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from dpcl_core.runs import frames
from tests.support import replay
from tests.support.signatures import ENTRIES, PROTOTYPES, SCORES, TOLD, with_lists

SAID = with_lists(replay.recorded(replay.a_spec(epsilons=(1.0,), seeds=(0, 7)), n_tasks=2))


def test_every_entry_has_one_row() -> None:
    table = frames.entries(SAID)
    assert len(table) == 2 * 2 * len(ENTRIES.client)
    one = table.query("seed == 7 and task == 1")
    for column in ("client", "weight", "group", "margin", "regret", "mode"):
        assert tuple(one[column]) == getattr(ENTRIES, column)
    assert list(zip(one["signature_x"], one["signature_y"], strict=True)) == list(ENTRIES.signature)
    assert list(one["name"]) == ["World", "Sports", "World", "World"]
    assert list(one["is_right"]) == [True, True, True, False]


def test_every_group_matcher_anchor_count_and_statistic_has_one_row() -> None:
    groups = frames.prototypes([TOLD])
    assert list(groups["name"]) == list(PROTOTYPES.name)
    assert list(groups["signature_xy"]) == [0.01, 0.0]
    agreement = frames.agreement([TOLD])
    assert agreement[agreement["noise"].isna()].set_index("matcher")["agreement"].to_dict() == dict(TOLD.agreement)
    assert agreement.query("matcher == 'Hungarian'")[["noise", "agreement"]].to_numpy().tolist() == [[0.0, 1.0], [0.1, 0.2]]
    assert set(agreement.loc[agreement["is_own"], "matcher"]) == {TOLD.matcher}
    anchors = frames.anchors([TOLD])
    assert tuple(anchors["m"]) == SCORES.m
    assert set(agreement["n_entries"]) == set(anchors["n_entries"]) == {len(ENTRIES.mode)}
    assert set(frames.agreement([replace(TOLD, n_compared=3)])["n_entries"]) == {3}
    for column in ("mean_rate", "least_rate", "least_gap", "needed", "agreement"):
        assert tuple(anchors[column]) == getattr(SCORES, column)
    statistics = frames.statistics([TOLD])
    assert statistics[["statistic", "signal", "noise"]].to_numpy().tolist() == [
        ["mean", 0.4, 0.15], ["second moment", 0.8, 40.0]
    ]  # fmt: skip


@pytest.mark.parametrize(
    "table", [frames.entries, frames.prototypes, frames.agreement, frames.anchors, frames.statistics]
)
def test_an_empty_table_has_the_same_columns(table) -> None:  # type: ignore[no-untyped-def]
    empty: pd.DataFrame = table([])
    assert empty.empty
    assert empty.dtypes.to_dict() == table(SAID).dtypes.to_dict()
