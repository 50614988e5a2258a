"""`python -m tithe` is the console script `tithe`."""

from __future__ import annotations

from tithe.cli import main

if __name__ == "__main__":
    main()
