"""The ground: bytes, files, records, escaping, and the one door to the native core."""
