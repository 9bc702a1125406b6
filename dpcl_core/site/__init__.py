"""The explorables, recorded runs and published numbers as a site of plain files."""
