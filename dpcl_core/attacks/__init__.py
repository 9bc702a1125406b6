"""Audits: what an attacker proves about epsilon who plays a method's learner, or its mechanism, on neighbouring data."""
