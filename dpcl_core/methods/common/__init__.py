"""Shared by every method: the learner protocol, the card, public sizes, evaluation."""
