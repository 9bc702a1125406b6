"""Differentially private continual learning: the engine behind the app and the command line."""

__version__ = "0.1.0"
