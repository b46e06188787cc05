"""Games as worlds: one game, or several with the same observation shape (paper, §6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from remanence.core.errors import UserError, unknown
from remanence.core.tree_utils import tree_where
from remanence.core.types import Key, ObsSpec, TimeStep
from remanence.worlds.base import World
from remanence.worlds.minatar.asterix import Asterix
from remanence.worlds.minatar.breakout import Breakout
from remanence.worlds.minatar.freeway import Freeway
from remanence.worlds.minatar.game import NUM_ACTIONS, RANDOM_WORDS, SIZE, Draws, Game, GameState, settled, spread
from remanence.worlds.minatar.seaquest import Seaquest
from remanence.worlds.minatar.space_invaders import SpaceInvaders

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")


def make_game(name: str, ramping: bool = True) -> Game:
    """The rules of a game. Breakout and freeway are never ramped."""
    if name == "breakout":
        return Breakout()
    if name == "freeway":
        return Freeway()
    ramped = {"asterix": Asterix, "seaquest": Seaquest, "space_invaders": SpaceInvaders}
    if name not in ramped:
        raise unknown("game", name, GAMES)
    return ramped[name](ramping)


class MinAtarDraws(NamedTuple):
    """The random choices of one step."""

    sticks: Array  # []  the last action is repeated instead of the chosen one
    game: Draws  # of each game, if there are several


class MinAtarState(NamedTuple):
    game: GameState  # of each game, if there are several
    last_action: Array  # []


@dataclass(frozen=True)
class MinAtar(World):
    """One game of MinAtar, with all six actions: nothing, left, up, right, down, fire.

    With probability `sticky` the last action is repeated instead of the chosen one. In the first step of an episode that is
    the last action of the episode before, as in the original; after a switch, and at first, it is the no-op. With `ramping`,
    games that support it become harder. The end of a game is a termination, also when its time is up, as in the original.

    Observation: bool, [10, 10, channels]: row, column, channel. `channels` may be more than the game has; the rest is empty.
    Task: ignored.
    """

    game: str
    sticky: float = 0.1
    ramping: bool = True
    channels: int | None = None
    discount: float = 0.99
    num_actions = NUM_ACTIONS

    def __post_init__(self) -> None:
        _check((self.rules,), self.sticky, self.channels, self.discount)

    @property
    def rules(self) -> Game:
        return make_game(self.game, self.ramping)

    @property
    def observation(self) -> ObsSpec:
        return ObsSpec((SIZE, SIZE, self.channels or len(self.rules.channels)), "bool")

    def reset(self, key: Key, task: Array) -> tuple[MinAtarState, Array]:
        del task
        return self.begin(self.draw(key))

    def restart(self, key: Key, before: MinAtarState, task: Array, switched: Array) -> tuple[MinAtarState, Array]:
        return _with_last_action(self.reset(key, task), before, switched)

    def step(self, key: Key, state: MinAtarState, action: Array, task: Array) -> tuple[MinAtarState, TimeStep]:
        del task
        return self.apply(state, action, self.draw(key))

    def draw(self, key: Key) -> MinAtarDraws:
        sticks, u = _chance(key, self.sticky)
        return MinAtarDraws(sticks, self.rules.draw(u))

    def begin(self, draws: MinAtarDraws) -> tuple[MinAtarState, Array]:
        """The start of an episode, given the draws."""
        state = MinAtarState(self.rules.begin(draws.game), jnp.int32(0))
        return state, self.observe(state)

    def apply(self, state: MinAtarState, action: Array, draws: MinAtarDraws) -> tuple[MinAtarState, TimeStep]:
        """The deterministic part of a step, given the draws."""
        done = jnp.where(draws.sticks, state.last_action, action)
        game, reward, ended = self.rules.apply(state.game, done, draws.game)
        after, ended = settled((MinAtarState(game, done), ended))
        return after, TimeStep(self.observe(after), reward, jnp.where(ended, 0.0, self.discount), ended)

    def observe(self, state: MinAtarState) -> Array:
        return spread(_padded(self.rules.board(state.game), self.observation.shape[-1]))


@dataclass(frozen=True)
class MinAtarGames(World):
    """Several games of MinAtar that share actions and the shape of observations. Task: the number of the game, [].

    All games are in the state; the current one steps, the others are unchanged. A new episode resets all of them. Everything
    else is as in `MinAtar`; the default number of channels is the largest of all games.
    """

    games: tuple[str, ...] = ("breakout", "freeway", "space_invaders")
    sticky: float = 0.1
    ramping: bool = True
    channels: int | None = None
    discount: float = 0.99
    num_actions = NUM_ACTIONS

    def __post_init__(self) -> None:
        if not self.games:
            raise UserError("a stream of games needs at least one game")
        _check(self.rules, self.sticky, self.channels, self.discount)

    @property
    def rules(self) -> tuple[Game, ...]:
        return tuple(make_game(name, self.ramping) for name in self.games)

    @property
    def observation(self) -> ObsSpec:
        most = max(len(game.channels) for game in self.rules)
        return ObsSpec((SIZE, SIZE, self.channels or most), "bool")

    def reset(self, key: Key, task: Array) -> tuple[MinAtarState, Array]:
        _, u = _chance(key, self.sticky)
        state = MinAtarState(tuple(game.begin(game.draw(u)) for game in self.rules), jnp.int32(0))
        return state, self.observe(state, task)

    def restart(self, key: Key, before: MinAtarState, task: Array, switched: Array) -> tuple[MinAtarState, Array]:
        return _with_last_action(self.reset(key, task), before, switched)

    def step(self, key: Key, state: MinAtarState, action: Array, task: Array) -> tuple[MinAtarState, TimeStep]:
        # Lanes play different games, so every lane steps all games and selects one outcome: see `bench/minatar.py`.
        sticks, u = _chance(key, self.sticky)
        done = jnp.where(sticks, state.last_action, action)
        reward, ended = jnp.float32(0), jnp.bool_(False)
        games = []
        for number, (game, before) in enumerate(zip(self.rules, state.game, strict=True)):
            outcome = game.apply(before, done, game.draw(u))
            live = task == number
            games.append(tree_where(live, outcome.state, before))
            reward, ended = tree_where(live, (outcome.reward, outcome.ended), (reward, ended))
        after, ended = settled((MinAtarState(tuple(games), done), ended))
        return after, TimeStep(self.observe(after, task), reward, jnp.where(ended, 0.0, self.discount), ended)

    def observe(self, state: MinAtarState, task: Array) -> Array:
        boards = [
            _padded(game.board(game_state), self.observation.shape[-1])
            for game, game_state in zip(self.rules, state.game, strict=True)
        ]
        seen = boards[0]
        for number, board in enumerate(boards[1:], start=1):
            seen = jnp.where(task == number, board, seen)
        return spread(seen)


def _with_last_action(
    begun: tuple[MinAtarState, Array], before: MinAtarState, switched: Array
) -> tuple[MinAtarState, Array]:
    """The beginning of an episode, where the last action of the episode before may still be repeated, unless the game switched."""
    state, obs = begun
    return state._replace(last_action=jnp.where(switched, state.last_action, before.last_action)), obs


def _padded(board: Array, channels: int) -> Array:
    """[10, channels] the board, padded with empty channels."""
    return jnp.pad(board, ((0, 0), (0, channels - board.shape[1])))


def _chance(key: Key, sticky: float) -> tuple[Array, Array]:
    """Whether the last action sticks, and random words for the game."""
    words = settled(jax.random.bits(key, (1 + RANDOM_WORDS,)))
    return (words[0] >> 8) * jnp.float32(2.0**-24) < sticky, words[1:]


def _check(games: tuple[Game, ...], sticky: float, channels: int | None, discount: float) -> None:
    if not 0.0 <= sticky <= 1.0:
        raise UserError(f"the probability that an action sticks must be in [0, 1]; got {sticky}")
    if not 0.0 <= discount <= 1.0:
        raise UserError(f"the discount must be in [0, 1]; got {discount}")
    needed = max(len(game.channels) for game in games)
    if channels is not None and channels < needed:
        raise UserError(f"these games need {needed} channels; got {channels}")
