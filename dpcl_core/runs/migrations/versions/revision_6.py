"""Looks at deleted data; whose a run is on a shared server, and when its trash was emptied; checkpoints and resumptions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "6", "5"


def upgrade() -> None:
    """Adds the tables and the columns."""
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
