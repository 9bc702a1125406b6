"""Pieces of the Train page."""
