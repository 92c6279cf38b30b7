"""States of chains: labels, statistics, parameters."""
