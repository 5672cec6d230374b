"""How each compiler family is found in an installation, asked what it can do, and
driven for a case.
"""
