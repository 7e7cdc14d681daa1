"""Errors of other libraries become one line, in one place."""

from __future__ import annotations

import pytest

from evenli.core.errors import (
    EvenliError,
    InputError,
    ModelError,
    RunError,
    foreign_code,
    named_reason,
    reason_of,
    translated,
)


class PanicException(BaseException):
    """What a library in Rust raises."""


@pytest.mark.parametrize("error", [ValueError("a\n  b"), PanicException("a b")])
def test_any_error_is_one_line(error: BaseException) -> None:
    with pytest.raises(RunError) as caught, translated("cannot: ", "; try again", into=RunError):
        raise error
    assert str(caught.value) == "cannot: a b; try again" and caught.value.__cause__ is error


def test_an_error_without_words_gives_its_class_and_a_long_one_is_cut() -> None:
    with pytest.raises(InputError, match="^cannot: KeyError$"), translated("cannot: "):
        raise KeyError
    with pytest.raises(InputError) as caught, translated(""):
        raise ValueError("x" * 10_000)
    assert len(str(caught.value)) < 1_000


def test_our_own_errors_pass_unless_they_are_named() -> None:
    ours = ModelError("y" * 1_000)
    with pytest.raises(ModelError) as caught, translated("cannot: "):
        raise ours
    assert caught.value is ours
    with pytest.raises(RunError) as again, translated("cannot: ", into=RunError, kinds=(ModelError,)):
        raise ours
    assert str(again.value) == f"cannot: {ours}"  # a line of ours is never cut


def test_only_the_kinds_that_are_named_are_translated() -> None:
    for error in (TypeError("x"), KeyboardInterrupt(), SystemExit(3), PanicException("x")):
        with pytest.raises(type(error)), translated("cannot: ", kinds=(ValueError,)):
            raise error
    for stop in (KeyboardInterrupt(), SystemExit(3), GeneratorExit()):
        with pytest.raises(type(stop)), translated("cannot: "):
            raise stop


def test_a_reason_may_let_pass_or_raise_a_better_line() -> None:
    with pytest.raises(ValueError, match="^x$"), translated("cannot: ", reason=lambda error: None):
        raise ValueError("x")

    def reason(error: BaseException) -> str:
        raise ModelError("better") from error

    with pytest.raises(ModelError, match="^better$"), translated("cannot: ", reason=reason):
        raise ValueError("x")


def test_a_missing_file_has_a_line_of_its_own_and_the_system_gives_its_reason() -> None:
    absent = FileNotFoundError(2, "No such file or directory", "x.csv")
    with pytest.raises(InputError, match="^no such file: x$"), translated("cannot: ", missing="no such file: x"):
        raise absent
    with pytest.raises(InputError, match="^cannot: No such file or directory$"):  # noqa: SIM117
        with translated("cannot: ", reason=reason_of):
            raise absent
    assert named_reason(ValueError("a  b")) == "ValueError: a b" and named_reason(ValueError()) == "ValueError"


def test_foreign_code_that_exits_is_one_line_and_its_prints_stay_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EvenliError, match="^mine raised SystemExit: 3$"), foreign_code("mine raised "):
        print("hello")
        raise SystemExit(3)
    assert capsys.readouterr().out == "hello\n"
