"""Explore page: what changes if I move this? Views: the playground, sensitive words, matching clients."""

from importlib import import_module

from pages.parts import layout, state

VIEWS = {"playground": "Playground", "words": "Sensitive words", "clients": "Matching clients"}
_MODULES = {"playground": "playground", "words": "sensitive_words", "clients": "matching_clients"}


@state.guarded
def page() -> None:
    """The page, whose view alone is loaded and drawn."""
    import_module(f"pages.parts.{_MODULES[layout.open_view(VIEWS)]}").page()


if __name__ == "__main__":
    page()
