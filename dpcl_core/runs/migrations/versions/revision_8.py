"""How long a run took over all its processes, since one that was resumed has had several."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "8", "7"


def upgrade() -> None:
    """Adds the column; of earlier processes only the last one's seconds are known."""
    op.add_column("runs", sa.Column("seconds", sa.Double))
    ended = "started IS NOT NULL AND status NOT IN ('starting', 'running', 'stopping')"
    op.execute(f"UPDATE runs SET seconds = coalesce(finished - started, 0) WHERE {ended}")
