"""The same agents in other libraries: DQN and PT-DQN as plain PyTorch loops, and stable-baselines3's DQN.

Networks, batch, replay buffer, target network and optimizer are those of our agent, on one thread. The PyTorch loop has no world:
it sees the frames of our replay buffer, one after the other. stable-baselines3 plays our MinAtar through Gymnasium.
Denormal numbers count as zero, as in XLA: rarely seen inputs make many of them in Adam's state, and they are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np

from remanence.agents.configs import DQN, PTDQN
from remanence.agents.networks import Conv, Dense, Flatten, Layer, Relu, Scale
from remanence.bench.lives import Entrant, LifeSizes
from remanence.bench.measure import Lap
from remanence.core.errors import UserError
from remanence.core.types import ObsSpec
from remanence.runs.plan import Plan

COMPARED = ("PT-DQN", "DQN")


def peers(against: str, plan: Plan, frames: Mapping[str, np.ndarray], sizes: LifeSizes) -> list[Entrant]:
    """The agents of the plan in another library, ready to be timed. `frames`: what our agents saw, [n, *frame], by agent."""
    import_module("torch").set_num_threads(1)
    entrants = []
    for name, config in ((name, plan.contenders[name].config) for name in COMPARED if name in frames):
        assert isinstance(config, DQN | PTDQN)
        if against == "torch":
            life, note = TorchLife(config, plan, frames[name], sizes.chunk), "1 lane, one thread, without the world"
            consolidate = _flushed(life.consolidate) if isinstance(config, PTDQN) else None
            entrants.append(Entrant(name, against, 1, _flushed(life.play), consolidate, note))
        elif isinstance(config, DQN):
            games = gymnasium.make("remanence.gym:remanence/MinAtarGames-v0")
            play = stable_baselines(config, games, plan.world.discount, sizes.chunk)
            entrants.append(Entrant(name, against, 1, _flushed(play), note="1 lane, one thread, with Gymnasium"))
    for entrant in entrants:
        entrant.play()
    return entrants


def _flushed(function: Callable[[], Lap]) -> Callable[[], Lap]:
    """The same function, within which denormal numbers count as zero."""
    flush = import_module("torch").set_flush_denormal

    def flushed() -> Lap:
        flush(True)
        try:
            return function()
        finally:
            flush(False)

    return flushed


class TorchLife:
    """The loop that a researcher writes: act, store, sample, one gradient step, and a copy to the target network at times."""

    def __init__(self, config: DQN | PTDQN, plan: Plan, frames: np.ndarray, chunk: int) -> None:
        self.torch, self.config, self.chunk = import_module("torch"), config, chunk
        self.actions_count, self.discount = plan.spec.num_actions, plan.world.discount
        channels_first = np.moveaxis(frames[: config.replay], -1, 1)
        stack = [np.roll(channels_first, back, axis=0) for back in reversed(range(config.frames))]
        self.inputs = np.ascontiguousarray(np.concatenate(stack, axis=1))  # [n, *input] what the agent sees in turn
        layers, shape = config.layers or (), self.inputs.shape[1:]
        self.q, self.target = (make_network(layers, shape, self.actions_count) for _ in range(2))
        self.target.load_state_dict(self.q.state_dict())
        self.permanent: Any = make_network(layers, shape, self.actions_count) if isinstance(config, PTDQN) else None
        lr = config.transient_lr if isinstance(config, PTDQN) else config.lr
        self.optimizer = self._optimizer(config.optimizer, self.q, lr)
        if isinstance(config, PTDQN):
            assert isinstance(config.consolidate_every, int)
            self.permanent_optimizer = self._optimizer(config.permanent_optimizer, self.permanent, config.permanent_lr)
            self.visits, every = np.resize(self.inputs, (config.consolidate_every, *shape)), config.consolidate_every
            self.visited_actions, self.visited_values = np.zeros(every, np.int64), np.zeros(every, np.float32)
        self.obs, self.next_obs = self.inputs.copy(), np.roll(self.inputs, -1, axis=0)
        self.actions, self.rewards = np.zeros(len(self.inputs), np.int64), np.zeros(len(self.inputs), np.float32)
        self.rng, self.steps = np.random.default_rng(0), 0

    def play(self) -> Lap:
        for _ in range(self.chunk):
            self.step()
        return Lap(self.chunk, np.zeros(1))

    def step(self) -> None:
        torch, slot = self.torch, self.steps % len(self.inputs)
        seen = self.inputs[slot]
        with torch.no_grad():
            x = torch.from_numpy(seen[None]).float()
            values = self.q(x)
            if self.permanent is not None:
                values = values + (permanent := self.permanent(x))
        explores = self.rng.random() < self.config.epsilon
        action = int(self.rng.integers(self.actions_count)) if explores else int(values.argmax())
        if self.permanent is not None:
            visit = self.steps % len(self.visits)
            self.visits[visit], self.visited_actions[visit] = seen, action
            self.visited_values[visit] = permanent[0, action]
        self.obs[slot], self.next_obs[slot] = seen, self.inputs[(slot + 1) % len(self.inputs)]
        self.actions[slot], self.rewards[slot] = action, 0.1 * action
        self.learn()
        self.steps += 1
        if self.config.target_every and self.steps % self.config.target_every == 0:
            self.target.load_state_dict(self.q.state_dict())

    def learn(self) -> None:
        torch = self.torch
        batch = self.rng.integers(len(self.obs), size=self.config.batch)
        obs, next_obs = (torch.from_numpy(stored[batch]).float() for stored in (self.obs, self.next_obs))
        actions, rewards = torch.from_numpy(self.actions[batch])[:, None], torch.from_numpy(self.rewards[batch])
        with torch.no_grad():
            next_values = self.target(next_obs)
            if self.permanent is not None:
                next_values = next_values + self.permanent(next_obs)
            y = rewards + self.discount * next_values.max(1).values
            if self.permanent is not None:
                y = y - self.permanent(obs).gather(1, actions)[:, 0]
        self._gradient_step(self.optimizer, self.q(obs).gather(1, actions)[:, 0], y)

    def consolidate(self) -> Lap:
        """Trains the permanent network on the visited states, and decays the other one."""
        torch, config = self.torch, self.config
        assert isinstance(config, PTDQN)
        for _ in range(min(len(self.visits) // config.batch, config.max_batches or len(self.visits))):
            batch = self.rng.integers(len(self.visits), size=config.batch)
            obs, actions = torch.from_numpy(self.visits[batch]).float(), torch.from_numpy(self.visited_actions[batch])
            with torch.no_grad():
                y = torch.from_numpy(self.visited_values[batch]) + self.q(obs).gather(1, actions[:, None])[:, 0]
            self._gradient_step(self.permanent_optimizer, self.permanent(obs).gather(1, actions[:, None])[:, 0], y)
        with torch.no_grad():
            for weights in self.q.parameters():
                weights.mul_(config.decay)
        return Lap(len(self.visits), np.zeros(1))

    def _gradient_step(self, optimizer: Any, values: Any, y: Any) -> None:
        optimizer.zero_grad()
        self.torch.nn.functional.mse_loss(values, y).backward()
        optimizer.step()

    def _optimizer(self, kind: Any, network: Any, lr: float) -> Any:
        return {"adam": self.torch.optim.Adam, "sgd": self.torch.optim.SGD}[kind](network.parameters(), lr=lr)


def stable_baselines(config: DQN, env: gymnasium.Env, discount: float, chunk: int) -> Callable[[], Lap]:
    """Chunks of a life of stable-baselines3's DQN with the network of our agent. It divides uint8 images by 255 itself."""
    base = import_module("stable_baselines3.common.torch_layers").BaseFeaturesExtractor
    import_module("torch").set_num_threads(1)
    box = env.observation_space
    assert isinstance(box, gymnasium.spaces.Box)
    hidden = config.hidden_layers(ObsSpec(box.shape, str(box.dtype)), box.shape)
    layers = [layer for layer in hidden if not isinstance(layer, Scale)]

    class HiddenLayers(base):
        def __init__(self, space: gymnasium.spaces.Box) -> None:
            self.channels_last = len(space.shape) == 3 and space.shape == box.shape  # else already moved
            shape = (space.shape[-1], *space.shape[:-1]) if self.channels_last else space.shape
            network = make_network(layers, shape)
            super().__init__(space, network(import_module("torch").zeros(1, *shape)).shape[1])
            self.layers = network

        def forward(self, obs: Any) -> Any:
            return self.layers(obs.permute(0, 3, 1, 2) if self.channels_last else obs)

    model = import_module("stable_baselines3").DQN(
        "MlpPolicy",
        env,
        learning_rate=config.lr,
        buffer_size=config.replay,
        learning_starts=config.batch,
        batch_size=config.batch,
        gamma=discount,
        train_freq=config.train_every,  # with one gradient step each
        target_update_interval=config.target_every or 1,
        policy_kwargs={"features_extractor_class": HiddenLayers, "net_arch": []},
        device="cpu",
        **dict.fromkeys(("exploration_initial_eps", "exploration_final_eps"), config.epsilon),
    )

    def play() -> Lap:
        model.learn(chunk, reset_num_timesteps=False)
        return Lap(chunk, np.zeros(1))

    return play


def make_network(layers: Iterable[Layer], shape: tuple[int, ...], outputs: int | None = None) -> Any:
    """The layers as a PyTorch network for inputs of this shape, with an output layer if there are `outputs`."""
    torch = import_module("torch")
    modules = []
    for layer in (*layers, *([Dense(outputs)] if outputs else [])):
        match layer:
            case Conv(filters, kernel, stride=stride):
                modules.append(torch.nn.LazyConv2d(filters, kernel, stride))
            case Dense(units):
                modules.append(torch.nn.LazyLinear(units))
            case Relu() | Flatten():
                modules.append(torch.nn.ReLU() if isinstance(layer, Relu) else torch.nn.Flatten())
            case _:
                raise UserError(f"the PyTorch loop has no layer '{layer.label}'")
    network = torch.nn.Sequential(*modules)
    network(torch.zeros(1, *shape))  # a lazy layer learns its number of inputs from the first one
    return network
