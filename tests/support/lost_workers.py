"""Dask clusters of two worker processes, and callbacks that kill workers of them or end a run."""

import multiprocessing
import os
import signal
import sys
import time
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver
from unittest.mock import patch

import dask
from distributed import Client, LocalCluster

from expfam.engines import dask as engine

IMPORTED = [
    "dask.array",
    "dask.dataframe",
    "distributed",
    "expfam.dask.groups",
    "expfam.dask.mixture",
    "expfam.dask.topics",
    "expfam.samplers",
]


@cache
def start_method():
    """Return how workers are started: forked from one process with all imports, where the system can do that.

    A worker that starts afresh, as the successor of a killed one does, imports for three seconds.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return "spawn"
    settings = {name: str(value) for name, value in dask.config.get("distributed.nanny.pre-spawn-environ").items()}
    folder = os.getcwd()
    os.chdir(sys.prefix)  # it looks in its folder first, and the checkout's expfam/ is only a part of the package
    try:
        with patch.dict(os.environ, settings):
            forkserver.set_forkserver_preload(IMPORTED)
            forkserver.ensure_running()
    finally:
        os.chdir(folder)
    return "forkserver"


@contextmanager
def two_workers():
    """Yield the client of a cluster of two worker processes."""
    with dask.config.set({"distributed.worker.multiprocessing-method": start_method()}):
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
        with cluster, Client(cluster) as client:
            yield client


def complete(client, n_workers=2, patience=20.0):
    """Return when so many workers answer: a successor of a killed one may be on its way.

    Dask may fail to begin it, where the scheduler still knows the killed one. Then another worker is added.
    """
    end = time.monotonic() + patience
    while len(client.run(os.getpid, on_error="ignore")) < n_workers:
        if time.monotonic() > end:
            client.cluster.scale(len(client.cluster.worker_spec) + 1)
            client.wait_for_workers(n_workers, timeout=60)
            return
        time.sleep(0.05)


def held(dask_worker):
    """Return how many parts of runs, and results, a worker holds, and the number of its process."""
    return sum(len(worker.residents) for _, worker in engine._runs.values()), len(dask_worker.data), os.getpid()


def processes(client):
    """Return the numbers of the workers' processes, those that hold most first.

    Dask may give all parts of a small fit to one worker, and the loss of the other one is then no loss.
    """
    return [pid for *_, pid in sorted(client.run(held).values(), reverse=True)]


def kill(client, n_workers=1):
    """Kill workers, those that hold most parts of a run, or results, first."""
    for pid in processes(client)[:n_workers]:
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
