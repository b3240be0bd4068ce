"""The package as a stranger gets it: a wheel in a fresh environment with the core only."""
