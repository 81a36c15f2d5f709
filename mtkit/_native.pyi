"""Native core of mtkit."""

def build_info() -> str:
    """What the core was built with, for mtkit --version."""
