"""`remanence.live`: trains agents in the user's Gymnasium environments."""

from remanence.live_env.results import LiveResults, load_results
from remanence.live_env.search import Search
from remanence.live_env.sweep import LiveSweep, live_sweep
from remanence.live_env.train import live

__all__ = ["LiveResults", "LiveSweep", "Search", "live", "live_sweep", "load_results"]
