"""Runs that end with the command in a terminal or the script that they were started from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "11", "10"


def upgrade() -> None:
    """Adds the column."""
    op.add_column("runs", sa.Column("attended", sa.Boolean))
