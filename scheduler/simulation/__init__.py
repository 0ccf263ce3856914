"""Many runs as one study: cells that say themselves whole, processes or a cluster that play them, a journal."""
