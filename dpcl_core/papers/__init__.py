"""Papers whose experiments are carried out here: what they printed, what came out, and why the two can differ."""
