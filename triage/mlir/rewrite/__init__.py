"""Changes to an MLIR module: static shapes, wider floats, barriers and affinities. They know no dialect's semantics."""
