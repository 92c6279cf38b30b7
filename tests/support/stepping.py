"""Chains stepped by hand, broken off and resumed, and run with other numbers of threads: the same for every kernel."""

import numpy as np

from expfam.samplers import Checkpoint, sample
from expfam.samplers.chain.callbacks import restore_checkpoint


def stepped(kernel, state, n_steps):
    """The state after some steps, consistent."""
    for _ in range(n_steps):
        kernel.step(state)
    state.check()
    return state


def assert_resumes(kernel, state, again, path, n_steps):
    """`again`, a first state of the same model, data and seed, goes on from the state's file with the same bits."""
    Checkpoint(path).write(state)
    restore_checkpoint(path, again)
    for _ in range(n_steps):  # in turns: a kernel must hold nothing of a run
        kernel.step(state)
        kernel.step(again)
    np.testing.assert_array_equal(state.labels, again.labels)
    assert state.log_joint == again.log_joint


def assert_seed_decides(kernel, state_of):
    """Chains from states by a function of the seed: the same bits for one seed, other labels for another."""

    def run(seed):
        state = state_of(seed)
        return sample(kernel, state, 5).column("objective"), state.labels

    np.testing.assert_array_equal(run(4)[0], run(4)[0])
    assert (run(4)[1] != run(5)[1]).any()


def assert_threads_agree(labels_of):
    """Labels by a function of the number of threads, the same for one, two and four."""
    one, two, four = map(labels_of, (1, 2, 4))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, four)
    return one
