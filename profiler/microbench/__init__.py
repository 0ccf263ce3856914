"""Operator microbenchmarks: each operator of the engine by itself, against two measured ceilings.

`run.microbench` measures, `results.MicrobenchV1` is the file. One operator family a file (gemm, decode_attention,
chunk_attention, pointwise, token_parallel, ceilings), the counting convention at its top. Nothing is imported here.
"""
