"""For whom the visitors of a shared server count, and digests of checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "11", "10"


def upgrade() -> None:
    """Adds the table and the column."""
    op.add_column("checkpoints", sa.Column("digest", sa.String(64)))
    op.create_table(
        "visitors",
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("address", sa.String(32)),
        sa.Column("pool", sa.String(80), nullable=False, index=True),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
    )
