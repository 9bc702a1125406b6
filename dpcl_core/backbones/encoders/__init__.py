"""Frozen encoders of texts: a text, or a word within its sentence, becomes a vector of unit length."""
