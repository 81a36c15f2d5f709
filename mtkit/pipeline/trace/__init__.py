"""Every step from a text to its ids and back, written down."""
