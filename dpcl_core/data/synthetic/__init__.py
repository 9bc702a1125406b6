"""The synthetic corpus with marked personal data: people nobody is, sentences about them, planted secrets, its cache."""
