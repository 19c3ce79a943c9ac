"""How hard tasks are: attempts of solvers, subsets, statistics."""
