"""CUDA graphs: a pass of decodes is captured whole, of any other batch the token-parallel pieces between two calls of
attention, each for a few sizes; a batch is padded to the next one.

Importing this package imports no torch: `sizes` is for whoever plans measurements.
"""
