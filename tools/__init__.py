"""Scripts that make files of the repository: documents, tables, data."""
