"""Compiled functions that XLA calls without Python.

compiling.py  how kernels are compiled and cached
addresses.py  arrays at addresses
callframe.py  the arguments and results of a call
"""
