"""Labels to begin with, made without a sampler."""
