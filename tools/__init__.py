"""What maintainers run: release, locks, generated pages, fuzzing, crash matrix, goldens; how shipped data is made."""
