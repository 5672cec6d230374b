"""One frontend for each kind of program: how it is read, checked, made smaller and
written.
"""
