"""The agenda: how long the loop may sleep, and what is done in which order."""

from math import inf

from queuectl.node.agenda import Agenda, Entry, Timer, never


def test_the_next_entry_bounds_the_sleep() -> None:
    times = {"one": 3.0, "two": 0.5}
    agenda = Agenda(
        Entry("one", lambda: times["one"]),
        Entry("two", lambda: times["two"], lambda: None, early=1.0),
        Entry("in each round", never, lambda: None, early=inf),
    )
    assert agenda.pause() == 0.5
    times["two"] = inf
    assert agenda.pause() == 3.0
    times["one"] = -1.0
    assert agenda.pause() == 0.0


def test_what_is_due_is_done_in_order_and_by_the_times_that_are_true_then() -> None:
    done: list[str] = []
    later = Timer()
    later.set(60)

    def first() -> None:
        done.append("first")
        later.hurry()

    agenda = Agenda(
        Entry("not yet", lambda: 0.2, lambda: done.append("not yet"), early=0.1),
        Entry("first", lambda: 0.0, first),
        Entry("hurried", later.due_in, lambda: done.append("hurried")),
        Entry("nearly", lambda: 0.1, lambda: done.append("nearly"), early=0.1),
        Entry("in each round", never, lambda: done.append("in each round"), early=inf),
        Entry("awake is enough", lambda: 0.0),
    )
    agenda.run()
    assert done == ["first", "hurried", "nearly", "in each round"]
