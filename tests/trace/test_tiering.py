"""What counts calls."""

from ftrace.trace.tiering import Tally


def test_a_tally_is_reached_once_so_much_was_spent() -> None:
    tally = Tally()
    assert [tally.reaches(10, 4) for _ in range(5)] == [False, False, False, True, True]
    assert tally.spent == 12


def test_a_tally_doubles_at_a_first_call_and_ever_twice_as_many() -> None:
    tally = Tally()
    assert [n for n in range(1, 100) if tally.doubles(8)] == [8, 16, 32, 64]
    assert Tally().doubles(1)
