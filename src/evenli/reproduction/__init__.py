"""The reproduction ledger: each published number, ours, the tolerance, and the reason for any difference."""

from evenli.reproduction.ledger import Row, ledger

__all__ = ["Row", "ledger"]
