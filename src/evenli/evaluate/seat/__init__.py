"""WEAT and SEAT association tests (Caliskan et al. 2017, May et al. 2019)."""

from evenli.evaluate.seat.association import AssociationResult, SeatSettings
from evenli.evaluate.seat.run import SeatResult, seat, seat_from_vectors
from evenli.evaluate.seat.tests import AssociationTest, TextSet, read_test, seat_tests

__all__ = ["AssociationResult", "AssociationTest", "SeatResult", "SeatSettings", "TextSet", "read_test", "seat"]
__all__ += ["seat_from_vectors", "seat_tests"]
