"""Whose a run is on a shared server, and when its owner emptied the trash."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "6", "5"


def upgrade() -> None:
    """Adds the columns."""
    op.add_column("runs", sa.Column("owner", sa.String(64)))
    op.add_column("runs", sa.Column("emptied", sa.Double))
