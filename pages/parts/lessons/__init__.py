"""Lessons: what their steps do on the page. One module a lesson, named in `catalog`."""
