"""Sign codes: a proposal over K codes, an update, and coding, beside a stored matrix and NumPy."""

import numpy as np

from expfam.structures import SignCodes, SignHash

N_DRAWS, N_FEATURES = 2000, 5000


class Propose:
    """Distances, scores, weights and a draw over K codes, in microseconds for one datum."""

    params = ([100, 1000], [64, 128, 512])
    param_names = ("n_codes", "n_bits")

    def setup(self, n_codes, n_bits):
        rng = np.random.default_rng(0)
        self.codes = SignCodes(SignHash(n_bits), n_codes, bound=np.full(20, 9.0))
        self.codes.rebuild(rng.normal(size=(n_codes, 20)))
        self.words = self.codes.hash.codes(rng.normal(size=(N_DRAWS, 20)))
        self.uniforms, self.norms = rng.random(N_DRAWS), rng.random(N_DRAWS)
        self.bias, self.planes = rng.normal(size=n_codes).astype(np.float32), self.codes.planes.copy()

    def time_draws_of_2000(self, n_codes, n_bits):
        self.codes.draws(self.words, self.uniforms, norms=self.norms, bias=self.bias)

    def time_numpy_draws_of_2000(self, n_codes, n_bits):
        norms, cosines = self.codes.norms, np.cos(np.pi * np.arange(n_bits + 1) / n_bits)
        count = getattr(np, "bitwise_count", None)
        if count is None:
            raise NotImplementedError("numpy 2 counts bits")
        for word, norm, uniform in zip(self.words, self.norms, self.uniforms):
            h = count(self.planes ^ word[:, None]).sum(axis=0)
            scores = norm * norms * cosines[h] + self.bias
            edges = np.cumsum(np.exp(scores - scores.max()))
            np.searchsorted(edges, uniform * edges[-1])


class Update:
    """One update of 100 coordinates."""

    params = (["rademacher", "gaussian8"], [64, 512])
    param_names = ("entries", "n_bits")

    def setup(self, entries, n_bits):
        rng = np.random.default_rng(0)
        self.codes = SignCodes(SignHash(n_bits, entries=entries), 10, bound=np.full(N_FEATURES, 9.0))
        self.w = rng.permutation(N_FEATURES)[:100]
        self.values = rng.random(100)
        self.matrix = rng.normal(size=(N_FEATURES, n_bits))
        self.dots = np.zeros(n_bits)

    def time_update(self, entries, n_bits):
        self.codes.update(0, self.w, old=self.values, new=self.values)

    def time_stored_gaussian_matrix(self, entries, n_bits):
        self.dots += self.values @ self.matrix[self.w]
        np.packbits(self.dots > 0)


class Code:
    """Codes of 1000 sparse rows."""

    params = (["rademacher", "gaussian8"], [64, 512])
    param_names = ("entries", "n_bits")

    def setup(self, entries, n_bits):
        from scipy import sparse

        self.X = sparse.random_array((1000, N_FEATURES), density=0.01, rng=np.random.default_rng(0), format="csr")
        self.hash = SignHash(n_bits, entries=entries)
        self.matrix = np.random.default_rng(1).normal(size=(N_FEATURES, n_bits))

    def time_codes(self, entries, n_bits):
        self.hash.codes(self.X)

    def time_stored_gaussian_matrix(self, entries, n_bits):
        np.packbits(self.X @ self.matrix > 0, axis=1)
