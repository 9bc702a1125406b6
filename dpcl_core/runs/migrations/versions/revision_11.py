"""Runs that end with the command that they were started from, visitors of a shared server, digests of checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "11", "10"


def upgrade() -> None:
    """Adds the table and the columns."""
    op.add_column("runs", sa.Column("attended", sa.Boolean))
    op.add_column("checkpoints", sa.Column("digest", sa.String(64)))
    op.create_table(
        "visitors",
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("address", sa.String(32)),
        sa.Column("pool", sa.String(80), nullable=False, index=True),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
    )
