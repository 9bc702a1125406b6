"""Pieces of the Compare page."""
