"""Most memory that an action allocates."""

import tracemalloc


def peak_of(action):
    """Bytes that Python and NumPy have held at most while it ran."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
