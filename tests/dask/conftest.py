"""A Dask cluster of two worker processes for the tests of one file."""

import pytest
from lost_workers import two_workers


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client
