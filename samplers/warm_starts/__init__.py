"""Labels to begin with, made by short runs of samplers."""
