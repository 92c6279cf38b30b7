"""Trees of clusters: find the best clusters of a datum without scoring all of them."""
