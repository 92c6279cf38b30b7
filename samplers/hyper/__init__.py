"""Updates of hyper-parameters."""
