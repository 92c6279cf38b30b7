"""A plan of chunks is learned without its estimator; passes end by a callback or Ctrl-C, and close what was called."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from expfam import Mixture, Poisson, SymmetricDirichlet
from expfam.fitting.chunk_models import RowChunks
from expfam.fitting.chunk_passes import made_passes
from expfam.fitting.chunks import learned_chunk
from expfam.fitting.kept_chunks import Chunk
from expfam.fitting.plan import Asked
from expfam.samplers import SparseVariational


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


def test_a_plan_without_an_estimator_learns_what_partial_fit_does():
    """The record of what is asked goes in, and the stream comes out; nobody calls back an estimator."""
    rng = np.random.default_rng(0)
    parts = [rng.poisson([[1.0, 9.0], [30.0, 2.0]] * 20) for _ in range(3)]
    mixture = Mixture("poisson", 2, sampler="variational", random_state=0)
    asked = Asked(Poisson(), SymmetricDirichlet(2), 2, "auto", None, str, "Mixture")
    plan = RowChunks(SparseVariational(), "auto", 0, None, None, None, asked)
    with pytest.raises(FrozenInstanceError):
        plan.start = "random"
    found = None
    for part in parts:
        mixture.partial_fit(part)
        found = learned_chunk(plan, Chunk(part.astype(float), {}), found)
    labels, n, S = found.stream.soft_partition()
    np.testing.assert_array_equal(labels, mixture.labels_)
    np.testing.assert_array_equal(n, mixture.n_)
    np.testing.assert_array_equal(S, mixture.S_)
    assert found.kept.n_rows == mixture._kept_chunks.n_rows == 120
