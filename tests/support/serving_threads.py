"""Teams whose threads serve already, so that they have a part in the first loop."""

import threading
from contextlib import contextmanager

from expfam.structures.ground.team import Team


@contextmanager
def served(n_threads):
    """Yield a team of the caller and threads that wait for loops."""
    team = Team(n_threads)
    threads = [threading.Thread(target=team.serve, daemon=True) for _ in range(n_threads - 1)]
    for thread in threads:
        thread.start()
    try:
        yield team
    finally:
        team.end()
        for thread in threads:
            thread.join()
