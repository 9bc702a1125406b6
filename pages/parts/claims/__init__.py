"""Pieces that recompute a published claim."""
