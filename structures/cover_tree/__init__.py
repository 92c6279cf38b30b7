"""Cover trees: nearest neighbours and nested groups of points."""
