"""Real clients: an example of federated runs with Flower (https://flower.ai), in which clients are processes of their own.

Only `apps` imports Flower, which needs an environment of its own.
"""
