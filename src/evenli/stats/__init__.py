"""Statistics: arrays and tables in, numbers with intervals out."""
