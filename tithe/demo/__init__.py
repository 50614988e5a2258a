"""A real training package with a history of real faults, written on demand."""
