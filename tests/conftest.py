"""For all tests, and the processes that they start."""

import os

# Before NumPy is imported. Two workers on two cores with two BLAS threads each wait for each other: the tests of steps
# took 400 s beside other work instead of 37.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
