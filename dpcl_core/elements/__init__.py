"""Elements drawn in the browser: the same sources for the app and for plain files."""
