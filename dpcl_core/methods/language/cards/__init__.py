"""Cards of the language family."""
