"""Conversion: read, write, verify, put the files in place."""
