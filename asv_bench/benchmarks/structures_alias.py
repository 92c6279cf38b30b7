"""Alias tables: draws beside `Generator.choice` with probabilities, and building."""

import numpy as np

from expfam.structures import AliasArena, AliasTable


class Draw:
    """A hundred thousand draws of one law."""

    params = ([16, 1024, 65536], ["table", "arena", "choice"])
    param_names = ("n_outcomes", "method")
    n_draws = 100_000

    def setup(self, n_outcomes, method):
        self.p = np.random.default_rng(0).dirichlet(np.ones(n_outcomes))
        self.rng = np.random.default_rng(1)
        self.table = AliasTable(self.p)
        self.arena = AliasArena(16, n_outcomes)
        self.arena.fill(np.tile(self.p, (16, 1)))
        self.tables = self.rng.integers(0, 16, self.n_draws)

    def time_draw(self, n_outcomes, method):
        if method == "table":
            self.table.draw(self.rng, self.n_draws)
        elif method == "arena":
            self.arena.draw(self.tables, self.rng)
        else:
            self.rng.choice(n_outcomes, size=self.n_draws, p=self.p)


class Build:
    """A million entries of tables, with and without their laws."""

    params = ([64, 1024, 16384], [False, True])
    param_names = ("n_outcomes", "keep_probability")

    def setup(self, n_outcomes, keep_probability):
        n_tables = (1 << 20) // n_outcomes
        self.weights = np.random.default_rng(0).gamma(0.3, size=(n_tables, n_outcomes)).astype(np.float32)
        self.arena = AliasArena(n_tables, n_outcomes, keep_probability=keep_probability)

    def time_fill(self, n_outcomes, keep_probability):
        self.arena.fill(self.weights)
