"""A method of your own from the parts of DQN: Double DQN with L2-init, a pull towards the initial weights (Kumar et al., 2023).

python examples/own_method.py
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

import remanence


@dataclass(frozen=True, kw_only=True)
class L2Init(remanence.DQN):
    """(δ² of Double DQN) + c ‖w − w₀‖²"""

    double: bool = True
    strength: float = 1e-3  # c
    name = "L2-init"  # type: ignore[assignment]

    @property
    def training(self) -> Any:
        return replace(super().training, penalty=self.pull)

    def pull(self, weights: Any, initial: Any) -> jax.Array:
        distances = jax.tree.map(lambda w, first: jnp.sum((w - first) ** 2), weights, initial)
        return self.strength * jax.tree.reduce(jnp.add, distances)


def main(steps: int = 30_000, seeds: int = 4, file: str = "l2-init.npz", **fields: Any) -> remanence.Policy:
    agents = [L2Init(**fields), remanence.DQN(**fields)]
    results = remanence.live(agents, "CartPole-v1", steps, seeds=seeds, progress=False)
    print({agent: round(float(results.matrix(agent, "return")[:, -1].mean()), 1) for agent in results.contenders})
    results.policy("L2-init").save(file)
    return remanence.load_policy(file, agent=L2Init)  # a file holds the fields of a configuration, not its class


if __name__ == "__main__":
    main()
