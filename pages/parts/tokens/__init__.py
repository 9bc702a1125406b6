"""Pieces of the Tokens page that run panels and lessons share: the text looked at, its heatmap, what noise leaves of it."""
