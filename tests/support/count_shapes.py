"""Generated counts, 0 and 1, categories, and tables with columns of several kinds.

Each function of sizes returns a function of a seed, which gives rows and their true clusters.
"""

import numpy as np
import pandas as pd

# ---- counts ----------------------------------------------------------------------------------------------------------


def near_rates(n, k, d, spread):
    """Poisson rows of k groups, the logarithms of whose rates differ by about `spread`."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z, rates = rng.integers(0, k, n), np.exp(1.5 + spread * rng.normal(size=(k, d)))
        return rng.poisson(rates[z]), z

    return make


def poisson_blob(n, d):
    def make(seed):
        return np.random.default_rng(seed).poisson(4.0, (n, d)), np.zeros(n, dtype=int)

    return make


def strong_count(n, n_noise):
    """One column with rates of 10 and 300, among columns of Poisson noise."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 2
        return np.column_stack([rng.poisson(np.where(z, 300, 10)), rng.poisson(3, (n, n_noise))]), z

    return make


def overdispersed(n, n_noise, successes):
    """Negative binomial columns: one with means of 5 and 150, among columns of mean 5."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 2
        means = np.column_stack([np.where(z, 150.0, 5.0), np.full((n, n_noise), 5.0)])
        return rng.negative_binomial(successes, successes / (successes + means)), z

    return make


def words(n, k, length, n_words=200):
    """Word counts of texts of some length, each of one topic."""

    def make(seed):
        rng = np.random.default_rng(seed)
        topics = rng.dirichlet(np.full(n_words, 0.1), k)
        z = np.arange(n) % k
        return np.array([rng.multinomial(length, topics[j]) for j in z]), z

    return make


def binary(n):
    """Three groups, each with four columns of its own."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 3
        p = np.where(np.arange(12) // 4 == np.arange(3)[:, None], 0.9, 0.1)
        return (rng.random((n, 12)) < p[z]).astype(np.int64), z

    return make


def binary_noise(n, d):
    def make(seed):
        return (np.random.default_rng(seed).random((n, d)) < 0.4).astype(np.int64), np.zeros(n, dtype=int)

    return make


# ---- categories ------------------------------------------------------------------------------------------------------


def codes_of_noise(n, d):
    """Columns of four levels that have nothing to do with each other."""

    def make(seed):
        return np.random.default_rng(seed).integers(0, 4, (n, d)), np.zeros(n, dtype=int)

    return make


def strains(n, k, sites=150):
    """Strains with some sites of their own at which they differ from all others; other sites are nearly constant."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % k
        differs = rng.random((k, sites)) < 0.08
        flips = rng.random((n, sites)) < 0.005
        return (differs[z] ^ flips).astype(np.int64), z

    return make


def latent_classes(n, k, d=12):
    """Classes with their own probabilities of four levels in each column."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % k
        laws = rng.dirichlet(np.full(4, 0.5), (k, d)).cumsum(axis=2)
        return (rng.random((n, d, 1)) > laws[z]).sum(axis=2).clip(0, 3), z

    return make


def table(make_codes):
    """The same as a frame of text."""

    def make(seed):
        codes, z = make_codes(seed)
        return pd.DataFrame({f"c{j}": np.array(list("abcd"))[column] for j, column in enumerate(codes.T)}), z

    return make


# ---- columns of several kinds ----------------------------------------------------------------------------------------


def telling_category(n):
    """Three groups that one category tells, and numbers that are noise."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 3
        df = pd.DataFrame(rng.normal(size=(n, 12)), columns=list("abcdefghijkl"))
        df["a"] += 4.0 * z
        return df.assign(kind=np.array(["red", "green", "blue"])[z]), z

    return make


def noise_categories(n):
    """Two groups that two numbers tell, and categories that are noise."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 2
        df = pd.DataFrame(8.0 * z[:, None] + rng.normal(size=(n, 2)), columns=list("ab"))
        return df.assign(**{f"c{j}": np.array(list("uvwx"))[rng.integers(0, 4, n)] for j in range(6)}), z

    return make


def holes(n):
    """Three groups in numbers and one category, with a tenth of the cells missing."""

    def make(seed):
        rng = np.random.default_rng(seed)
        z = np.arange(n) % 3
        df = pd.DataFrame(8.0 * np.eye(3)[z] + rng.normal(size=(n, 3)), columns=list("abc"))
        level = np.where(rng.random(n) < 0.8, z, rng.integers(0, 3, n))
        df = df.assign(level=np.array(["low", "middle", "high"])[level])
        return df.mask(rng.random(df.shape) < 0.1), z

    return make


def table_of_noise(n):
    """One group: numbers, counts and categories that have nothing to do with each other."""

    def make(seed):
        rng = np.random.default_rng(seed)
        df = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc")).assign(visits=rng.poisson(3.0, n))
        return df.assign(city=np.array(list("uvwx"))[rng.integers(0, 4, n)]), np.zeros(n, dtype=int)

    return make


def many_zeros(n, share, k):
    """Counts of one rate in five columns, a share of which are 0, in k clusters by chance."""

    def make(seed):
        rng = np.random.default_rng(seed)
        X = rng.poisson(10.0, size=(n, 5))
        X[rng.random(X.shape) < share] = 0
        return X, rng.integers(0, k, n)

    return make
