"""Dask clusters of two worker processes, and callbacks that kill workers of them or end a run."""

import os
import signal
from contextlib import contextmanager

from distributed import Client, LocalCluster


@contextmanager
def two_workers():
    """Yield the client of a cluster of two worker processes."""
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        yield client


def kill(client, n_workers=1):
    """Kill workers; the first is one that holds labels of a finished fit."""
    for pid in sorted(client.run(os.getpid).values())[:n_workers]:
        os.kill(pid, signal.SIGKILL)


class Killer:
    """Callback that kills workers after some step."""

    def __init__(self, client, step, n_workers=1):
        self.client, self.step, self.n_workers = client, step, n_workers

    def __call__(self, info, state):
        if info.step == self.step:
            kill(self.client, self.n_workers)


class Until:
    """Callback that ends a run after a step."""

    def __init__(self, step):
        self.step = step

    def __call__(self, info, state):
        return info.step >= self.step
