"""Passes over MLIR modules."""
