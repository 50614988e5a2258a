"""What a change does: arms, launches, probes, executors, statistics, verdicts."""
