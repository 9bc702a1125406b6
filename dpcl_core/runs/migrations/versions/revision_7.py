"""Which machine's device carries a run out; runs that are carried out in parts; the machines of a store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "7", "6"


def upgrade() -> None:
    """Adds a column and three tables; a device is limited to one run by machine and device, no more by device alone."""
    busy = "status IN ('starting', 'running', 'stopping')"
    active = sa.text(busy)
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("runs", "device", type_=sa.String(60))
    op.add_column("runs", sa.Column("runs_on", sa.String(60)))
    op.drop_index("one_run_per_device", "runs")
    op.execute(f"UPDATE runs SET runs_on = device WHERE {busy}")
    op.create_index(
        "one_run_per_device", "runs", ["runs_on"], unique=True, sqlite_where=active, postgresql_where=active
    )
    op.create_table(
        "splits",
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("n_shards", sa.Integer, nullable=False),
        sa.Column("executor", sa.String(10), nullable=False),
        sa.Column("device", sa.String(60), nullable=False),
    )
    op.create_table(
        "shards",
        sa.Column("id", sa.String(12), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("groups", sa.JSON, nullable=False),
    )
    op.create_index("ix_shards_run_id", "shards", ["run_id"])
    op.create_table(
        "machines",
        sa.Column("name", sa.String(48), primary_key=True),
        sa.Column("devices", sa.JSON, nullable=False),
        sa.Column("seen", sa.Double, nullable=False),
    )
