"""Charts on the stage of a lesson."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcl_core.figures.picture import Picture, Provenance
from pages.parts.lessons.stage import Stage
from pages.parts.shell import figure_card

if TYPE_CHECKING:
    import pandas as pd


def chart(stage: Stage, picture: Picture, table: pd.DataFrame, title: str, source: str) -> None:
    """Draws a chart as a card with its numbers to download. `source`: what they were computed from."""
    provenance = Provenance(source, None, "")
    key = f"lesson-{stage.lesson}-{stage.step.key}"
    figure_card.show(picture, provenance, key=key, title=title, table=table, moved=True)
