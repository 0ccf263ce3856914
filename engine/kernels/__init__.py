"""Triton kernels of the engine, one a file, each with the static table of its launch configurations.

The modules import triton and nothing else of weight: the compiler alone can be run over `configurations`.
"""
