"""Pieces of the Tokens page, shared with run panels and lessons: text selection, heatmap, detection, noise."""
