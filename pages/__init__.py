"""One file a page, one question a page; a page reads the store, calls figures, and never computes."""
