"""One epoch of random allocation: the likelihood ratio of its steps, by payoffs, laws and grids."""
