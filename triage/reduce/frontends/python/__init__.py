"""Python programs and kernels."""
