"""One card a method: its texts, its settings, what it can be combined with."""
