"""Random numbers, threads, amounts of memory and checks of stored arrays."""
