"""One estimator of an iteration's median and tail a file, by name in `registry.py`, and what they are made of."""
