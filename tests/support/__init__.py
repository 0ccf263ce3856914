"""Things that several tests build: tables at random, states to ask them about."""
