"""Canonicalized stable-list replay (CSLR): lists, signatures, matchers, release, replay, head and rounds, in NumPy.

A client describes its texts by an unordered list of weighted Gaussians (`lists`), each seen through public anchors
(`signatures`); `matchers` say which entry of one client means the same as which of another; `release` adds up clipped client
vectors under one Gaussian noise and decodes a mixture (`replay`) that a small `head` learns from. `public` holds what is
known before any private text is read, `rounds` who takes part and how updates are averaged.
"""
