"""Pieces of pages, by use: shell (every page), training, claims, comparison, anchors, tokens, lessons."""
