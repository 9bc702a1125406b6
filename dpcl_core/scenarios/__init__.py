"""How data arrives: one dataset becomes a stream of tasks."""
