"""Audits in the formats of other tools."""
