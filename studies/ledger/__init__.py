"""The reproduction ledger: each published number, ours, the tolerance, and the reason for any difference."""

from studies.ledger.ledger import Row, ledger

__all__ = ["Row", "ledger"]
