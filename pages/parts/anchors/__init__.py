"""Pieces of the page Matching clients: sources of its lists (a run, a simulation), and figures of their matching."""
