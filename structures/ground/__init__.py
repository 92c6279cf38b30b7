"""What every other room stands on: random numbers and threads."""
