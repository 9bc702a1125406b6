"""Checkpoints of runs, and how often a run was resumed by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "6", "5"


def upgrade() -> None:
    """Adds the tables."""
    op.create_table(
        "checkpoints",
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("learner", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("task", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("events", sa.JSON, nullable=False),
        sa.Column("document", sa.Text),
        sa.Column("arrays", sa.LargeBinary),
    )
    op.create_table(
        "resumptions",
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("n_checkpoints", sa.Integer, nullable=False),
        sa.Column("n_times", sa.Integer, nullable=False),
    )
