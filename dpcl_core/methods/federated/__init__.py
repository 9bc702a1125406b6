"""Canonicalized stable-list replay (CSLR): lists, signatures, matchers, release, replay, head and rounds, in NumPy.

A client describes its texts by an unordered list of weighted Gaussians (`lists`), each seen through public anchors
(`signatures`); `matchers` say on the client which entry belongs to which public group, `pooling` clusters all lists together
as the paper does; `release` adds up clipped client vectors under one Gaussian noise and decodes a mixture (`replay`) that a
small `head` learns from, `published` sends the paper's four statistics instead. `public` holds what is known before any
private text is read, `rounds` who takes part and how updates are averaged.
"""
