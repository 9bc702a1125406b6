"""Parts of the Anchors page: where its lists come from, and the pictures of how they were matched."""
