"""Real clients: a run whose clients are processes of their own, brought together by Flower (https://flower.ai).

Only `server_app` and `client_app` import Flower, which needs an environment of its own.
"""
