"""Real clients: a run whose clients are processes of their own, brought together by Flower (https://flower.ai).

Only `apps` imports Flower, which needs an environment of its own.
"""
