"""Pieces of the page Questions: the gallery, and what starts a question's runs."""
