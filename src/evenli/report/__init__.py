"""Results for people: terminal, HTML, charts, model card and gate."""
