"""IREE: found in wheels, virtual environments and build trees; run through its native
`iree-compile`.
"""
