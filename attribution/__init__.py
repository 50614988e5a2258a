"""Who did it: sweep, bisection, labels."""
