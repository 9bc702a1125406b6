"""Pieces of the page Sensitive words, shared with run panels and lessons: text selection, heatmap, detection, noise."""
