"""Released classifiers, and rooms of a class."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "5", "4"


def _room() -> sa.ForeignKey:
    return sa.ForeignKey("rooms.code", ondelete="CASCADE")


def upgrade() -> None:
    """Adds the tables."""
    op.create_table(
        "classifiers",
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("epsilon", sa.Double, primary_key=True),
        sa.Column("seed", sa.BigInteger, primary_key=True),
        sa.Column("task", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("about", sa.JSON, nullable=False),
        sa.Column("arrays", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "rooms",
        sa.Column("code", sa.String(6), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("ends", sa.Double, nullable=False),
        sa.Column("poll", sa.JSON),
        sa.Column("shown_run", sa.String(12)),
    )
    op.create_table(
        "members",
        sa.Column("room", sa.String(6), _room(), primary_key=True),
        sa.Column("token", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(40), nullable=False),
        sa.UniqueConstraint("room", "name", name="one_name_per_room"),
    )
    op.create_table(
        "votes",
        sa.Column("room", sa.String(6), _room(), primary_key=True),
        sa.Column("poll", sa.String(12), primary_key=True),
        sa.Column("token", sa.String(64), primary_key=True),
        sa.Column("choice", sa.Integer, nullable=False),
    )
    op.create_table(
        "room_runs",
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("room", sa.String(6), _room(), nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
    )
    op.create_index("ix_room_runs_room", "room_runs", ["room"])
