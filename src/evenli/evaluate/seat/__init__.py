"""WEAT and SEAT association tests."""
