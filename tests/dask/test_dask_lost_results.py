"""Labels of a finished fit whose workers are killed: made again with the same bits, or refused at once."""

import dask.array as da
import numpy as np
import pytest
from lost_workers import kill, two_workers

from expfam.dask import Mixture, TopicModel
from expfam.errors import EngineError

RNG = np.random.default_rng(6)
X = RNG.normal(size=(900, 2)) + 5.0 * RNG.integers(0, 3, (900, 1))
COUNTS = RNG.poisson(RNG.choice([0.2, 4.0], size=(120, 6)))
SECONDS = 60  # in which labels come back, or an error


@pytest.fixture
def client():
    """Two workers of their own: each test kills some."""
    with two_workers() as client:
        yield client


def computed(client, labels):
    """Return labels, or raise TimeoutError where a fetch would wait for ever."""
    return client.compute(labels).result(timeout=SECONDS)


@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 6, "n_steps": 6},
        {"n_components": None, "n_steps": 4, "start": "one"},
        {"n_components": 6, "sampler": "em", "n_steps": 4},
    ],
    ids=["gibbs", "open", "em"],
)
def test_labels_of_a_mixture_are_made_again(client, settings, n_workers):
    mixture = Mixture("gaussian_diag", random_state=0, client=client, **settings)
    whole = mixture.fit(da.from_array(X, chunks=(900, 2))).labels_.compute()
    mixture.fit(da.from_array(X, chunks=(250, 2)))
    kill(client, n_workers)
    np.testing.assert_array_equal(computed(client, mixture.labels_), whole)


def test_labels_of_rows_with_weights_and_of_files_are_made_again(client, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    mixture = Mixture("gaussian_diag", 5, sampler="em", n_steps=4, random_state=0, client=client)
    mixture.fit(tmp_path / "rows.npy", sample_weight=np.arange(900.0) % 3)
    whole = mixture.labels_.compute()
    kill(client, 2)
    np.testing.assert_array_equal(computed(client, mixture.labels_), whole)


def test_labels_of_topics_are_made_again(client):
    model = TopicModel(3, n_steps=4, n_warmup=2, start="random", random_state=0, client=client)
    model.fit(da.from_array(COUNTS, chunks=(50, 6)))
    whole = model.labels_.compute()
    np.testing.assert_array_equal(whole, model.predict(COUNTS))
    kill(client, 2)
    np.testing.assert_array_equal(computed(client, model.labels_), whole)


def test_labels_of_saved_steps_are_made_again(client, monkeypatch):
    """A journal that was cut begins at labels that were saved."""
    monkeypatch.setattr("expfam.engines.dask._JOURNAL_BYTES", 3000)
    mixture = Mixture("gaussian_diag", 6, n_steps=6, random_state=0, client=client)
    mixture.fit(da.from_array(X, chunks=(250, 2)))
    whole = mixture.labels_.compute()
    kill(client, 2)
    np.testing.assert_array_equal(computed(client, mixture.labels_), whole)


def test_labels_of_steps_too_large_to_keep_are_refused_at_once(client, monkeypatch):
    monkeypatch.setattr("expfam.engines.dask._PAST_BYTES", 1000)
    mixture = Mixture("gaussian_diag", 6, n_steps=4, random_state=0, client=client)
    mixture.fit(da.from_array(X, chunks=(250, 2)))
    kill(client, 2)
    with pytest.raises(EngineError, match=r"rows \d+ to \d+ were lost .*write fit\(X\) once more.*labels_\.to_zarr"):
        computed(client, mixture.labels_)


def test_labels_of_rows_that_cannot_be_read_again_end_in_an_error(client):
    blocks = client.scatter([X[:400], X[400:]])
    mixture = Mixture("gaussian_diag", 6, n_steps=4, random_state=0, client=client).fit(blocks)
    kill(client, 2)
    with pytest.raises(Exception, match=r"(?i)lost|cancel") as caught:
        computed(client, mixture.labels_)
    assert not isinstance(caught.value, TimeoutError)
