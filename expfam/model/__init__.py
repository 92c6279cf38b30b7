"""What a model of some data is, before any algorithm: data, weights, mixtures."""
