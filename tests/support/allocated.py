"""Most memory that an action allocates."""

import tracemalloc

import numpy as np


def peak_of(action):
    """Bytes that Python and NumPy have held at most while it ran."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def peak_of_steps(kernel, model, data, n_clusters):
    """Bytes that a state and three steps of a kernel have held at most."""

    def steps():
        state = kernel.init(model, data, seed=0, start=np.arange(data.n_rows) % n_clusters)
        for _ in range(3):
            kernel.step(state)

    return peak_of(steps)
