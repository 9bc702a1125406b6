"""One file per page, one question per page; a page reads the store, calls figures, and never computes."""
