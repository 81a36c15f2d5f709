"""``mtkit encode``: text to ids; where the command line is a plain one, without typer."""
