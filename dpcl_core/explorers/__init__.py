"""Interactive computations for pages: maps, matching what-ifs, layers of a text, replays at another budget."""
