"""Results for people: terminal, HTML, notebook, model card, tables."""
