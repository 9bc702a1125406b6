"""DP-Stat-Share: CSLR with lists of one entry. The card says what differs, which is nothing but the list's length."""

from __future__ import annotations

from dpcl_core.methods.federated.cslr_central import make_learner

__all__ = ["make_learner"]
