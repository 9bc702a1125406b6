"""What Alembic runs: the revisions, in the transaction that the store has begun."""

from __future__ import annotations

from alembic import context

from dpcl_core.runs.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
