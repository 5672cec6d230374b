"""MLIR modules."""
