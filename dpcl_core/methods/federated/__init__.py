"""Canonicalized stable-list replay (CSLR): lists, signatures, matchers, release, replay, head and rounds, in NumPy.

A client describes its texts by an unordered list of weighted Gaussians (`lists`), each evaluated at public anchors
(`signatures`). `matchers` assign entries to public groups on the client; `pooling` clusters all lists on the server, as the
paper does. `client_release` sums clipped client vectors, adds Gaussian noise and decodes a mixture (`replay`) on which a
small `head` is trained; `published_release` sends the paper's four statistics instead. `public_context` holds what is fixed
before any private text is read; `rounds` draws the participants and averages their updates.
"""
