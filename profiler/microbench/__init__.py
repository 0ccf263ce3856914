"""Operator microbenchmarks: each operator of the engine by itself, against two measured ceilings.

`measure.microbench` measures, `results.MicrobenchV1` is the file. Three files define operators (ceilings,
token_parallel, attention), each with its counting convention at the top. Nothing is imported here.
"""
