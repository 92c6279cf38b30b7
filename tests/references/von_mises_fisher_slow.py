"""The von Mises-Fisher law from its definition, in decimal arithmetic of 60 digits.

Bessel functions come from their power series, whose terms are all positive, so no digits cancel. Nothing is shared with
the package.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

DIGITS = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")


def _log_gamma_of_halves(twice):
    """Return log gamma(twice / 2) for a positive integer."""
    value = PI.sqrt() if twice % 2 else Decimal(1)
    for k in range(2 - twice % 2, twice, 2):
        value *= Decimal(k) / 2
    return value.ln()


def log_bessel(twice_nu, z):
    """Return log(I_nu(z) / z^nu) as a Decimal, for nu = twice_nu / 2 and a number z >= 0."""
    with localcontext() as context:
        context.prec = DIGITS
        quarter = Decimal(z) ** 2 / 4
        term = total = Decimal(1)
        k = 0
        while term > total * Decimal(10) ** -DIGITS:
            k += 1
            term *= quarter / (k * (Decimal(twice_nu) / 2 + k))
            total += term
        return total.ln() - Decimal(twice_nu) / 2 * Decimal(2).ln() - _log_gamma_of_halves(twice_nu + 2)


def log_constant(d, kappa):
    """Return log C_d(kappa) as a Decimal."""
    with localcontext() as context:
        context.prec = DIGITS
        return -Decimal(d) / 2 * (2 * PI).ln() - log_bessel(d - 2, kappa)


def log_evidence(rows, mean, strength, nodes, log_weights):
    """Return the log evidence of rows (n, d), nats: a sum over all nodes of products over all rows."""
    d = len(mean)
    with localcontext() as context:
        context.prec = DIGITS
        sums = [sum((Decimal(float(row[f])) for row in rows), Decimal(0)) for f in range(d)]
        total = Decimal(0)
        for kappa, log_weight in zip(nodes, log_weights):
            kappa = Decimal(float(kappa))
            R = [Decimal(float(strength)) * Decimal(float(m)) + kappa * s for m, s in zip(mean, sums)]
            length = sum(r * r for r in R).sqrt()
            log_term = Decimal(float(log_weight)) + len(rows) * log_constant(d, kappa)
            log_term += log_constant(d, Decimal(float(strength))) - log_constant(d, length)
            total += log_term.exp()
        return total.ln()


def bell_partitions(n_rows):
    """Yield every partition of n_rows rows, as lists of blocks."""
    if n_rows == 0:
        yield []
        return
    last = n_rows - 1
    for partition in bell_partitions(last):
        for b in range(len(partition)):
            yield [*partition[:b], [*partition[b], last], *partition[b + 1 :]]
        yield [*partition, [last]]


def partition_posterior(rows, alpha, mean, strength, nodes, log_weights):
    """Return the posterior of every partition under a Dirichlet process: {frozenset of blocks: probability}."""
    evidence, out = {}, {}
    for partition in bell_partitions(len(rows)):
        weight = Decimal(1)
        for block in partition:
            key = tuple(block)
            if key not in evidence:
                evidence[key] = log_evidence([rows[i] for i in block], mean, strength, nodes, log_weights).exp()
            factorial = Fraction(1)
            for k in range(1, len(block)):
                factorial *= k
            weight *= Decimal(float(alpha)) * factorial.numerator * evidence[key]
        out[frozenset(map(frozenset, partition))] = weight
    total = sum(out.values())
    return {partition: float(weight / total) for partition, weight in out.items()}
