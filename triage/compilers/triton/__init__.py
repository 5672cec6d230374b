"""Triton: its unpacked wheel, with a worker that compiles kernels ahead of time without
a GPU or torch.
"""
