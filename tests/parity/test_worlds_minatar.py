"""MinAtar's games against the originals, transition by transition; chance, sticky actions and streams of games.

REMANENCE_MINATAR_EPISODES=1000 judges so many episodes per game and kind of play and prints what was compared (with pytest's -s).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minatar import Environment
from scipy.stats import chisquare

from minatar_oracle import JUDGES, Episode, Seen, aimless, mismatches, record
from remanence.agents import Agent
from remanence.core.errors import UserError
from remanence.core.prng import make_key, randint
from remanence.core.types import Steps
from remanence.engine.lanes import Driver
from remanence.engine.life import LifeConfig, ProbeInput
from remanence.experiments.figure5_minatar import PLANS, RELEASED_ORDERS
from remanence.gym.worlds import MinAtarEnv
from remanence.streams import RandomOrder, Stream
from remanence.worlds.minatar import GAMES, MinAtar, MinAtarGames, MinAtarState, make_game, minatar_picture
from remanence.worlds.minatar.game import FIRE, LEFT, NOTHING, RANDOM_WORDS, RIGHT, digits
from remanence.worlds.minatar.picture import BACKGROUND, GREEN, PAINTS, RED

EPISODES = int(os.environ.get("REMANENCE_MINATAR_EPISODES", "0"))
BATCH = 48  # episodes that are replayed at once
MOST = 1000  # steps of an episode of good play
RAMPED = ("asterix", "seaquest", "space_invaders")

# Late in the game: what is set in the original, and the same in ours.
LATE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "asterix": (
        {"spawn_speed": 2, "move_speed": 1, "ramp_index": 8, "ramp_timer": 20},
        {"appear_every": 2, "move_every": 1, "level": 8, "ramp": 20},
    ),
    "seaquest": (
        {"e_spawn_speed": 1, "move_speed": 2, "ramp_index": 19, "diver_count": 6},
        {"enemy_every": 1, "move_every": 2, "level": 19, "aboard": 6},
    ),
    "space_invaders": ({"enemy_move_interval": 7}, {"interval": 7}),
}


def judge(label: str, world: MinAtar, play: Callable[[int], Episode], episodes: int, **changes: Any) -> list[float]:
    """Compares episodes with ours, step by step; returns what each paid."""
    wrong = dict.fromkeys(Seen._fields, 0)
    returns, steps = [], 0
    for first in range(0, episodes, BATCH):
        some = [play(seed) for seed in range(first, min(first + BATCH, episodes))]
        for field, count in mismatches(world, some, **changes).items():
            wrong[field] += count
        returns += [float(one.seen.reward.sum()) for one in some]
        steps += sum(one.steps for one in some)
    if EPISODES:
        print(
            f"{label}: {episodes} episodes, {steps} steps, return {np.mean(returns):.3g} (most {max(returns):g}), {wrong}"
        )
    assert not any(wrong.values()), (label, wrong)
    return returns


@pytest.mark.parametrize("game", GAMES)
def test_random_play_is_that_of_the_original(game: str) -> None:
    judge(
        f"{game}, random",
        MinAtar(game),
        lambda seed: record(game, aimless, seed, most=3000),
        EPISODES or (3 if game == "freeway" else 16),
    )


@pytest.mark.parametrize(
    ("game", "pays"), {"asterix": 20, "breakout": 35, "freeway": 15, "seaquest": 20, "space_invaders": 30}.items()
)
def test_good_play_is_that_of_the_original(game: str, pays: float) -> None:
    """Far enough for new bricks, new traffic, the next block of aliens, higher levels and divers brought home."""

    def play(seed: int) -> Episode:
        return record(game, JUDGES[game].worker, seed, sticky=0.1 * (seed % 2), most=3000 if EPISODES else MOST)

    returns = judge(f"{game}, good play", MinAtar(game), play, EPISODES or (3 if game == "freeway" else 16))
    assert max(returns) > pays


@pytest.mark.parametrize("game", RAMPED)
def test_games_without_ramping(game: str) -> None:
    def play(seed: int) -> Episode:
        return record(game, JUDGES[game].worker, seed, ramping=False, most=3000 if EPISODES else MOST)

    judge(f"{game}, good play, no ramping", MinAtar(game, ramping=False), play, EPISODES or 16)


@pytest.mark.parametrize("game", RAMPED)
def test_late_in_the_game(game: str) -> None:
    """The fastest enemies, and in seaquest a board full of them."""
    theirs, ours = LATE[game]

    def play(seed: int) -> Episode:
        return record(game, JUDGES[game].worker, seed, most=3000 if EPISODES else MOST, **theirs)

    judge(f"{game}, good play, late", MinAtar(game), play, EPISODES or 16, **ours)


def test_the_judge_sees_a_difference() -> None:
    """A game in which one number was changed at the beginning is found out."""
    some = [record("space_invaders", aimless, seed) for seed in range(3)]
    assert mismatches(MinAtar("space_invaders"), some)["state"] == 0
    wrong = mismatches(MinAtar("space_invaders"), some, reload=9)
    assert min(wrong["state"], wrong["obs"]) > 0


# --- chance ------------------------------------------------------------------------------------------------------------------


def draws_of(game: str, count: int = 40_000) -> Any:
    """Draws with leaves [count, ...]."""
    words = jax.random.bits(make_key(7), (count, RANDOM_WORDS))
    return jax.jit(jax.vmap(make_game(game).draw))(words)


def assert_uniform(numbers: Any, outcomes: int) -> None:
    """All of 0 … outcomes − 1, equally often."""
    counts = np.bincount(np.ravel(np.asarray(numbers, int)), minlength=outcomes)
    assert len(counts) == outcomes
    assert chisquare(counts).pvalue > 0.001


def test_digits_are_independent_and_uniform() -> None:
    words = jax.random.bits(make_key(3), (200_000,))
    first, second, third = np.asarray(jax.vmap(lambda word: digits(word, (3, 7, 16)))(words)).T
    assert_uniform(first * 7 * 16 + second * 16 + third, 3 * 7 * 16)


def test_digits_by_hand() -> None:
    """A word is a fraction: 1/2 is 1 of 2, and nothing is left; 3/4 is 1 of 2, and the half that is left is 5 of 10."""
    assert digits(jnp.uint32(1 << 31), (2, 10)).tolist() == [1, 0]
    assert digits(jnp.uint32(3 << 30), (2, 10)).tolist() == [1, 5]
    assert digits(jnp.uint32(2**32 - 1), (10, 10, 10, 10)).tolist() == [9] * 4


def test_draws_have_the_chances_of_the_original() -> None:
    assert_uniform(draws_of("breakout").from_right, 2)

    velocity = np.asarray(draws_of("freeway").velocity)  # [draws, cars]
    number = np.where(velocity < 0, velocity + 5, velocity + 4)
    for car in range(8):
        assert_uniform(number[:, car], 10)
        assert_uniform(number[:, car] * 10 + number[:, (car + 3) % 8], 100)

    draws = draws_of("asterix")
    assert_uniform(draws.rightward, 2)
    assert chisquare(np.bincount(draws.gold), np.array([2, 1]) / 3 * len(draws.gold)).pvalue > 0.001
    for rows in range(2, 9):
        assert_uniform(draws.turn % rows, rows)

    draws = draws_of("seaquest")
    assert_uniform(draws.enemy_rightward, 2)
    assert_uniform(draws.diver_rightward, 2)
    assert_uniform((draws.enemy_row - 1) * 8 + draws.diver_row - 1, 64)
    assert chisquare(np.bincount(draws.enemy_shoots), np.array([2, 1]) / 3 * len(draws.enemy_shoots)).pvalue > 0.001


@pytest.mark.parametrize("sticky", [0.0, 0.1, 1.0])
def test_actions_stick_as_often_as_they_should(sticky: float) -> None:
    world = MinAtar("breakout", sticky=sticky)
    sticks = np.asarray(jax.vmap(world.draw)(jax.random.split(make_key(1), 100_000)).sticks)
    assert abs(sticks.mean() - sticky) <= 4 * np.sqrt(sticky * (1 - sticky) / len(sticks))


def test_the_action_that_was_done_sticks() -> None:
    """Not the one that was chosen: two sticky steps after one move go on in the same direction."""
    world = MinAtar("space_invaders")
    draws = world.draw(make_key(0))
    free, sticky = (draws._replace(sticks=jnp.bool_(flag)) for flag in (False, True))
    state, _ = world.begin(free)
    apply = jax.jit(world.apply)
    places = []
    for action, u in ((LEFT, sticky), (RIGHT, free), (LEFT, sticky), (LEFT, sticky), (NOTHING, free), (LEFT, free)):
        state, _ = apply(state, jnp.int32(action), u)
        places.append(int(state.game.cannon))
    assert places == [5, 6, 7, 8, 8, 7]


def test_an_action_sticks_over_the_end_of_an_episode_as_in_the_original() -> None:
    """The paddle goes right until the game is lost; in the next game a sticky step goes right too. After a switch it does not."""
    original = Environment("breakout", sticky_action_prob=0.0)
    while not original.act(RIGHT)[1]:
        pass
    original.reset()
    original.sticky_action_prob = 1.0
    original.act(LEFT)
    task = jnp.int32(0)
    for free, sticky in (
        (MinAtar("breakout", 0.0), MinAtar("breakout", 1.0)),
        (MinAtarGames(sticky=0.0), MinAtarGames(sticky=1.0)),
    ):
        step = jax.jit(free.step)
        state, _ = free.reset(make_key(0), task)
        seen = None
        while seen is None or not seen.last:
            state, seen = step(make_key(1), state, jnp.int32(RIGHT), task)
        for switched, expected in ((False, original.env.pos), (True, 4)):
            begun, _ = free.restart(make_key(2), state, task, jnp.bool_(switched))
            after, _ = sticky.step(make_key(3), begun, jnp.int32(LEFT), task)
            game = after.game if isinstance(free, MinAtar) else after.game[0]
            assert int(game.paddle) == expected
    assert original.env.pos == 5


def test_a_gymnasium_environment_lets_the_last_action_stick_unless_it_is_seeded() -> None:
    env = MinAtarEnv("breakout", sticky=1.0)

    def first_paddle(**options: Any) -> int:
        env.reset(**options)
        env.step(LEFT)
        return int(env.state.game.paddle)

    env.reset(seed=0)
    assert env._episode is not None
    right = env.state._replace(last_action=jnp.int32(RIGHT))
    env._episode = env._episode._replace(world=right)
    assert [first_paddle(), first_paddle(), first_paddle(seed=0)] == [5, 5, 4]


# --- worlds ------------------------------------------------------------------------------------------------------------------


def test_freeway_truly_ends_when_time_is_up() -> None:
    """As in the original, after step 2501 and with discount 0, although nothing the agent sees has ended."""
    world = MinAtar("freeway", discount=0.9)
    state, _ = world.reset(make_key(0), jnp.int32(0))
    for time, expected in ((1, (False, pytest.approx(0.9))), (0, (True, 0.0))):
        late = state._replace(game=state.game._replace(time=jnp.int32(time)))
        _, seen = jax.jit(world.step)(make_key(1), late, jnp.int32(NOTHING), jnp.int32(0))
        assert (bool(seen.last), float(seen.discount)) == expected


def walk(world: Any, task: Any, lanes: int = 14, steps: int = 150) -> Any:
    """What each lane sees, [lanes, steps], with random actions and a new episode after an end."""

    def lane(key: Any, task: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            state, over = carry
            k_act, k_step, k_reset = jax.random.split(key, 3)
            fresh, _ = world.reset(k_reset, task)
            state = jax.tree.map(lambda a, b: jnp.where(over, a, b), fresh, state)
            state, seen = world.step(k_step, state, randint(k_act, 6), task)
            return (state, seen.last), seen

        state, obs = world.reset(key, task)
        return obs, jax.lax.scan(step, (state, jnp.bool_(False)), jax.random.split(key, steps))[1]

    return jax.jit(jax.vmap(lane))(jax.random.split(make_key(5), lanes), task)


def test_a_stream_of_games_is_each_game_by_itself() -> None:
    """Lanes that play different games side by side see what they would see in a world with that game alone."""
    games = ("space_invaders", "freeway")
    lanes = 14
    task = jnp.arange(lanes) % len(games)
    first, seen = walk(MinAtarGames(games, sticky=0.3, discount=0.9), task)
    assert seen.obs.shape == (lanes, 150, 10, 10, 7)
    for number, game in enumerate(games):
        own_first, own = walk(MinAtar(game, sticky=0.3, channels=7, discount=0.9), task)
        own_lanes = np.asarray(task) == number
        np.testing.assert_array_equal(first[own_lanes], own_first[own_lanes])
        for name in ("obs", "reward", "discount", "last"):
            one, other = getattr(seen, name), getattr(own, name)
            np.testing.assert_array_equal(one[own_lanes], other[own_lanes], err_msg=f"{game}: {name}")
    assert seen.last.any()


IDLE = Agent(  # does not learn
    init=lambda key, hypers: jnp.int32(0),  # noqa: ARG005
    act=lambda state, hypers, obs, key: jax.random.randint(key, (), 0, 6),  # noqa: ARG005
    learn=lambda state, hypers, transition, key: state,  # noqa: ARG005
    consolidate=lambda state, *_: state,
    inspect=lambda state, obs: {},  # noqa: ARG005
)


def test_a_life_of_games_drawn_at_random() -> None:
    """Lanes draw a game for every segment, and episodes of the games end in its steps: breakout's about every eleven."""
    segment_length, window, segments, lanes = 60, 30, 3, 8
    stream = Stream(
        jnp.arange(3), RandomOrder(segments), Steps(segment_length), boundaries_known=False, truncate_on_switch=True
    )

    def measure(probe_input: ProbeInput) -> dict[str, Any]:
        assert probe_input.episodes is not None
        return {"game": probe_input.task_id, "episodes": probe_input.episodes.count}

    outcome = Driver(LifeConfig(IDLE, MinAtarGames(), stream, measure, window=window)).run([0.0] * lanes, range(lanes))
    game, episodes = (outcome.record[name].reshape(lanes, segments, 2) for name in ("game", "episodes"))
    assert (game[..., 0] == game[..., 1]).all()
    assert set(game.ravel().tolist()) == {0, 1, 2}
    mean = {number: episodes[game == number].mean() for number in range(3)}
    assert 1.5 < mean[0] < 4
    assert mean[1] == 0.0  # freeway's are longer than a segment, and one that a switch cuts off does not count


def test_the_games_of_the_authors_runs() -> None:
    """Their generator draws a game, then one number per step; a switch comes before the step at which it is due."""
    games, letters = ("breakout", "space_invaders", "freeway"), RELEASED_ORDERS.split()
    assert len(letters) == 30
    for seed in range(30):
        generator = np.random.RandomState(seed)
        order = []
        for steps in (0, 499_999, *[500_000] * 5):
            generator.random_sample(steps)
            order.append(generator.choice(games)[0])
        assert "".join(order) == letters[seed]


def test_seeds_live_in_the_orders_of_the_authors() -> None:
    """The released preset, with segments of 20 steps: what each lane records is its row."""
    plan = PLANS["released"]().shortened(segment_length=20)
    stream, names = plan.stream, MinAtarGames().games
    config = LifeConfig(IDLE, MinAtarGames(), stream, lambda given: {"game": given.task_id}, window=20)
    outcome = Driver(config).run([0.0] * 4, (0, 1, 29, 31))
    letters = RELEASED_ORDERS.split()
    lived = ["".join(names[int(game)][0] for game in row) for row in outcome.record["game"].reshape(4, -1)]
    assert lived == [letters[0], letters[1], letters[29], letters[1]]


def test_games_that_are_not_live_wait() -> None:
    world = MinAtarGames(("breakout", "freeway"))
    state, _ = world.reset(make_key(0), jnp.int32(0))
    after, _ = world.step(make_key(1), state, jnp.int32(FIRE), jnp.int32(1))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, after.game[0], state.game[0]))
    assert int(after.game[1].time) == int(state.game[1].time) - 1


def test_channels_are_common_to_all_games() -> None:
    assert MinAtarGames().observation.shape == (10, 10, 7)  # paper, App. C.1.6
    assert MinAtarGames(GAMES).observation.shape == (10, 10, 10)
    assert MinAtar("breakout").observation.shape == (10, 10, 4)
    padded, plain = MinAtar("breakout", channels=7), MinAtar("breakout")
    (_, obs), (_, own) = (world.reset(make_key(0), jnp.int32(0)) for world in (padded, plain))
    assert (obs.shape, obs.dtype) == ((10, 10, 7), bool)
    np.testing.assert_array_equal(obs[..., :4], own)
    assert not obs[..., 4:].any()


def test_pictures() -> None:
    """Background, a brick, the ball, which begins behind the bricks, and the paddle."""
    world = MinAtar("breakout", channels=7)
    state, _ = world.reset(make_key(0), jnp.int32(0))
    picture = minatar_picture("breakout", world.observe(state), pixels=2)
    assert (picture.shape, picture.dtype) == ((20, 20, 3), np.uint8)
    ball = int(state.game.x)
    cells = [picture[2 * row, 2 * column].tolist() for row, column in ((5, 5), (1, 5), (3, ball), (9, 4))]
    assert cells == [list(colour) for colour in (BACKGROUND, RED, RED, GREEN)]
    for game in GAMES:
        assert set(PAINTS[game]) == set(make_game(game).channels)
    with pytest.raises(UserError, match=r"\(10, 10, 7\) or more; got \(10, 10, 4\)"):
        minatar_picture("freeway", np.zeros((10, 10, 4), bool))


def test_worlds_are_values() -> None:
    assert hash(MinAtarGames(("breakout",))) == hash(MinAtarGames(("breakout",)))
    assert MinAtar("breakout") != MinAtar("breakout", sticky=0.2)
    assert MinAtar("asterix").num_actions == MinAtarGames().num_actions == 6
    assert isinstance(MinAtar("asterix").reset(make_key(0), jnp.int32(0))[0], MinAtarState)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MinAtar("breakuot"), "unknown game 'breakuot': did you mean 'breakout'"),
        (lambda: MinAtarGames(("freeway", "pong")), "unknown game 'pong'"),
        (lambda: MinAtarGames(()), "at least one game"),
        (lambda: MinAtar("freeway", channels=6), "need 7 channels; got 6"),
        (lambda: MinAtarGames(channels=4), "need 7 channels; got 4"),
        (lambda: MinAtar("freeway", sticky=1.5), r"in \[0, 1\]; got 1.5"),
        (lambda: MinAtar("freeway", discount=-1), r"discount must be in \[0, 1\]; got -1"),
    ],
)
def test_worlds_that_make_no_sense_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
