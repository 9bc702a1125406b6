"""Datasets: bundled, in parquet (local folder, cache or hub), and the user's own."""
