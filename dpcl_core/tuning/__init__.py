"""Search for learning rate, batch size and clipping norm: its trials, and the settings from the best one."""
