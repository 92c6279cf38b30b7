"""How a fit is planned and run: phases of steps, starts, chains, and the end of a run."""
