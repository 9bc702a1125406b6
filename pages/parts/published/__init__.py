"""Pieces of the page Published."""
