"""What happened: records, configuration, store, git history, dependency graph, importers, spool."""
