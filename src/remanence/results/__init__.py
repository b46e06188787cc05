"""Results: two tidy tables per run, and what can be said of them."""

from remanence.results.store import Results, RunDirectory, load

__all__ = ["Results", "RunDirectory", "load"]
