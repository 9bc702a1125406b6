"""The synthetic corpus with marked personal data: invented people, sentences about them, planted secrets, its cache."""
