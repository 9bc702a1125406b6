"""Calculators of published privacy claims, and the bar that states a guarantee."""
