"""Looks at data that their owner has deleted; whose a run is on a shared server, and when its owner emptied the trash."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "6", "5"


def upgrade() -> None:
    """Adds the table and the columns."""
    op.create_table(
        "kept_looks",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("marks", sa.JSON, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("models", sa.Integer, nullable=False),
        sa.Column("tuned", sa.Integer, nullable=False),
        sa.Column("audits", sa.Integer, nullable=False),
        sa.Column("epsilon", sa.Double, nullable=False),
        sa.Column("delta", sa.Double, nullable=False),
    )
    op.add_column("runs", sa.Column("owner", sa.String(64)))
    op.add_column("runs", sa.Column("emptied", sa.Double))
