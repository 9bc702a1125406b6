"""Pieces that the methods of Lifelong DP (Lai et al. 2022) share: networks, projection, plans, memory, losses, claims."""
