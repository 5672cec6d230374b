"""XLA as the wheels of jaxlib bring it: compiles StableHLO, HLO and functions of JAX
for this machine's processor.
"""
