"""Reproduced papers: their published numbers, our results, and the reasons for differences."""
