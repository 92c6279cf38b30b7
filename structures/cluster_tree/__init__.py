"""Trees over the parameters of clusters: best clusters of a datum without scoring all."""
