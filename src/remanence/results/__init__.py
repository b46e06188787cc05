"""Results: two tidy tables per run, and statistics of them."""

from remanence.results.directory import RunDirectory
from remanence.results.store import Results, load

__all__ = ["Results", "RunDirectory", "load"]
