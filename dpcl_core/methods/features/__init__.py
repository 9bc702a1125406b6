"""Methods on pretrained features: cosine classifier, ensembles, naive and non-CL training (Tobaben et al.)."""
