"""Search for learning rate, batch size and clipping norm: which trials there are, and what follows from the best one."""
