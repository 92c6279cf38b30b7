"""Cover trees for nearest neighbours and nested groups of points."""
