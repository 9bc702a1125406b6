"""Budgets that owners declare for their data, and whom the looks at deleted data protected."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "10", "9"


def upgrade() -> None:
    """Adds the table and the column."""
    op.add_column("kept_looks", sa.Column("unit", sa.Text))
    op.create_table(
        "budgets",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("dataset", sa.Text),
        sa.Column("marks", sa.JSON, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Double, nullable=False),
        sa.Column("delta", sa.Double, nullable=False),
    )
