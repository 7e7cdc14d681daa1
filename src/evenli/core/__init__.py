"""What every room uses: records, settings, registries, readers and writers, run folders, texts and pages."""
