"""What we found and how: one folder a study, run from a clone with ``python -m studies.NAME.SCRIPT``."""
