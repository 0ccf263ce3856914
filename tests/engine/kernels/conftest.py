"""These tests run the kernels: on a GPU, or anywhere under Triton's interpreter, which has to be chosen before
triton is imported. So tests/engine/test_interpreted_kernels.py runs this folder in a process of its own.
"""

from support.kernel_device import RUNNABLE

collect_ignore_glob = [] if RUNNABLE else ["test_*.py"]
