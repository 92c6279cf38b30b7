"""Passes over chunks end by a callback or Ctrl-C, and close what was called."""

import pytest

from expfam.fitting.chunk_passes import made_passes


class Stream:
    """Stream of numbered passes, of which one is stopped by Ctrl-C."""

    def __init__(self, stopped_at=None):
        self.stopped_at = stopped_at

    def sweeps(self, first, again, n_passes):
        for number in range(n_passes):
            if number == self.stopped_at:
                raise KeyboardInterrupt
            yield number


class Closing:
    """Callback that asks for an end at a pass, and knows whether it was closed."""

    def __init__(self, end=None):
        self.end, self.seen, self.is_closed = end, [], False

    def __call__(self, info, stream):
        self.seen.append(info)
        return info == self.end

    def close(self):
        self.is_closed = True


@pytest.mark.parametrize(("end", "n_infos"), [(None, 5), (2, 3)])
def test_all_callbacks_see_each_pass_and_one_ends_the_run(end, n_infos):
    callbacks = [Closing(end), Closing()]
    assert made_passes(Stream(), [], list, 5, callbacks) == (list(range(n_infos)), False)
    assert [callback.seen for callback in callbacks] == [list(range(n_infos))] * 2
    assert all(callback.is_closed for callback in callbacks)


def test_passes_before_an_interrupt_are_kept():
    callback = Closing()
    assert made_passes(Stream(stopped_at=2), [], list, 5, [callback]) == ([0, 1], True)
    assert callback.is_closed


def test_an_interrupt_of_the_first_pass_leaves_nothing():
    callback = Closing()
    with pytest.raises(KeyboardInterrupt):
        made_passes(Stream(stopped_at=0), [], list, 5, [callback])
    assert callback.is_closed
