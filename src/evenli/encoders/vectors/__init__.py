"""Word vectors from the files of the field."""
