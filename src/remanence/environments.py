"""Registers our worlds with Gymnasium. `import remanence` does it if Gymnasium was imported before.

`gymnasium.make("remanence.environments:remanence/JellyBeanWorld-v0")` always works, in whatever order things were imported.
"""

from __future__ import annotations

import gymnasium

gymnasium.register("remanence/JellyBeanWorld-v0", "remanence.worlds.jellybean.gym:JellyBeanEnv")
