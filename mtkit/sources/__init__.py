"""Which file a name stands for: settings, the hub's local cache, folders."""
