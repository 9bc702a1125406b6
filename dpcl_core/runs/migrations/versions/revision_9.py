"""Turns in the queue that still count though their runs were deleted with their data."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "9", "8"


def upgrade() -> None:
    """Adds the table."""
    op.create_table(
        "kept_turns",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("owner", sa.String(64)),
        sa.Column("started", sa.Double, nullable=False),
    )
