"""DP-Stat-Share: CSLR with lists of one entry. Only the card's list length differs."""

from __future__ import annotations

from dpcl_core.methods.federated.cslr_central import make_learner

__all__ = ["make_learner"]
