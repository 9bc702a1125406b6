"""Placeholder of this page."""

from __future__ import annotations

from pages.parts.header import header


def page() -> None:
    """The page."""
    header("About", "This page is being built.")


if __name__ == "__main__":
    page()
