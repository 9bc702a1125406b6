"""Scenarios: each turns one dataset into a stream of tasks."""
