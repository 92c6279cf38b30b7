"""Models without algorithms: data, priors on weights, mixtures."""
