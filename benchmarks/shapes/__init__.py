"""The parts of published.py: SLOWeave's and SlidingServe's evaluations, recorded traces, and the trust in a table."""
