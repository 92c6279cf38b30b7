"""Memory of each worker: the number of workers that is named would do, and one less would not."""

import re

import pytest

from expfam.errors import ResourceError
from expfam.forecast.workers import check_workers, forecast_workers

SIZES = {"row_bytes": 40_000_000_000, "n_rows": 10_000_000, "n_statistics": 128, "n_components": 1000}


@pytest.mark.parametrize("free", [10**9, 3 * 10**9, 2 * 10**10])
def test_the_number_of_workers_that_is_named_is_the_least_that_does(free):
    with pytest.raises(ResourceError, match=r"1 worker needs about .* rows 40 GB, labels 160 MB") as caught:
        check_workers(forecast_workers(**SIZES, n_workers=1), free)
    enough = int(re.search(r"write Client\(n_workers=(\d+)\)", str(caught.value))[1])
    check_workers(forecast_workers(**SIZES, n_workers=enough), free)
    with pytest.raises(ResourceError):
        check_workers(forecast_workers(**SIZES, n_workers=enough - 1), free)


def test_more_memory_is_named_where_no_number_of_workers_does():
    forecast = forecast_workers(**SIZES | {"n_components": 100_000}, n_workers=4)
    with pytest.raises(ResourceError, match="no number of workers of this size would do") as caught:
        check_workers(forecast, 10**9)
    check_workers(forecast, int(re.search(r"memory_limit=(\d+)\)", str(caught.value))[1]))


def test_parts_change_the_share_of_rows_alone():
    one, four = (forecast_workers(**SIZES, n_workers=n) for n in (1, 4))
    assert one.clusters == four.clusters
    assert one.of_worker - one.clusters == 4 * (four.of_worker - four.clusters)
