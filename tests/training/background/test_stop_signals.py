"""A run that is told to stop ends at a place of its own choosing, with a stated exit code."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from rolecraft.training.background import StopSignals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_sets_a_flag_and_the_exit_code(number, code) -> None:
    with StopSignals() as stop:
        assert not stop.asked
        assert stop.exit_code == 0
        os.kill(os.getpid(), number)
        assert stop.asked
        assert stop.exit_code == code
    assert stop.asked


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_second_signal_ends_on_the_spot(number, error) -> None:
    with StopSignals():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(error) as caught:
            os.kill(os.getpid(), number)
    if error is SystemExit:
        assert caught.value.code == 143


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_the_first_signal_ends_what_no_checkpoint_could_keep(number, error) -> None:
    with StopSignals() as stop:
        with pytest.raises(error), stop.at_once():
            os.kill(os.getpid(), number)
        assert stop.exit_code == 128 + number
        with pytest.raises(error), stop.at_once():
            pytest.fail("this began although the run had been told to end")
    with StopSignals() as stop:
        with stop.at_once():
            pass
        os.kill(os.getpid(), number)  # a flag again
        assert stop.asked


def test_what_listened_before_listens_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_outside_the_main_thread_it_listens_to_nothing() -> None:
    found = []

    def work() -> None:
        with StopSignals() as stop:
            found.append(stop.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
