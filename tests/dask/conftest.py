"""A Dask cluster of two worker processes for the tests of one file."""

import pytest
from lost_workers import complete, two_workers


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture(autouse=True)
def _two_living_workers(request):
    """Begin a test when both workers answer: the test before may have killed one."""
    if "client" in request.fixturenames:
        complete(request.getfixturevalue("client"))
