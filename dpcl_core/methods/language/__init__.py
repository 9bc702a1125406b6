"""Pieces that the methods which train a language model share: prompts, losses, scores, noise, steps, leaks."""
