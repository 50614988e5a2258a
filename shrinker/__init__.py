"""The same code for less: reducers, search, fidelity."""
