"""Pieces of the Anchors page: sources of its lists (a run, a simulation), and figures of their matching."""
