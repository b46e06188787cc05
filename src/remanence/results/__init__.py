"""Results: two tidy tables per run, and what can be said of them."""

from remanence.results.directory import RunDirectory
from remanence.results.store import Results, load

__all__ = ["Results", "RunDirectory", "load"]
