"""Pieces of every page: header, layout, links, state, figure cards."""
