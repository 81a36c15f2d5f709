"""Which file a name stands for: the user's settings, caches of other programs, folders, servers."""
