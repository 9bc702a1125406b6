"""What the data are: bundled, parquet (local folder, cache or hub), and a person's own."""
