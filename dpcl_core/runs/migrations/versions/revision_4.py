"""Layouts 1 to 4, which were numbered in a table of their own: each lacked some of these tables, and nothing else."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "4", None


def upgrade() -> None:
    """Creates the tables that are missing."""
    op.create_table(
        "studies",
        sa.Column("id", sa.String(12), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("settings", sa.JSON, nullable=False),
        sa.Column("sizes", sa.JSON),
        if_not_exists=True,
    )
    _indexed(
        "turns",
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("study_id", sa.String(12), sa.ForeignKey("studies.id"), nullable=False),
        index="study_id",
    )
    op.create_table(
        "trials",
        sa.Column("study_id", sa.String(12), sa.ForeignKey("studies.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("payload", sa.JSON, nullable=False),
        if_not_exists=True,
    )
    _indexed(
        "audits",
        sa.Column("id", sa.String(12), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id"), nullable=False),
        sa.Column("results", sa.JSON, nullable=False),
        index="run_id",
    )
    _indexed(
        "sets",
        sa.Column("id", sa.String(12), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("preset", sa.Text, nullable=False),
        index="preset",
    )
    _indexed(
        "set_runs",
        sa.Column("run_id", sa.String(12), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("set_id", sa.String(12), sa.ForeignKey("sets.id"), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        index="set_id",
    )
    op.drop_table("dpcl_layout")


def _indexed(table: str, *columns: sa.Column[object], index: str) -> None:
    op.create_table(table, *columns, if_not_exists=True)
    op.create_index(f"ix_{table}_{index}", table, [index], if_not_exists=True)
