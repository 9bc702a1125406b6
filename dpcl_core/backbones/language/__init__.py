"""Language models: how they read texts, what they think of them, and what of them can be trained."""
