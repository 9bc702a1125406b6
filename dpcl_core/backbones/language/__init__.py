"""Language models: tokenization, token likelihoods, and trainable adapters."""
