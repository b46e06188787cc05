"""The command line: list · run · sweep · show · report · check · clean · theory · bench."""

from remanence.cli.app import main

__all__ = ["main"]
