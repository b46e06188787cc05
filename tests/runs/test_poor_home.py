"""A home that may be poor: nothing writable, no user name, a planted cache, a terminal that vanishes or lacks characters."""

from __future__ import annotations

import errno
import os
import pty
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash import command, the_run
from one_group import events
from remanence.core import backend
from remanence.core.errors import UserError, disk_errors, of_disk, of_memory
from remanence.results.directory import groups_under_way
from remanence.runs import executors

SMOKE = ("run", "figure2/tabular", "--preset", "smoke", "--contenders", "TD", "--seeds", "1")
SRC = str(Path(backend.__file__).parents[2])


def poor(
    *arguments: str | Path, prefix: tuple[str, ...] = (), cwd: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command with nothing but what is given in its environment. It compiles as fast as the other tests."""
    kept = {name: os.environ[name] for name in ("PATH", "XLA_FLAGS") if name in os.environ}
    return subprocess.run(
        [*prefix, sys.executable, *map(str, arguments)],
        env={"PYTHONPATH": SRC, **kept, **environment},
        check=False,
        capture_output=True,
        text=True,
        cwd=cwd,
    )


can_map_users = subprocess.run(["unshare", "--user", "--map-user=4711", "true"], check=False, capture_output=True)


@pytest.mark.skipif(can_map_users.returncode != 0, reason="this machine has no user namespaces")
def test_without_a_home_or_a_name_everything_runs_with_one_notice(tmp_path: Path) -> None:
    (tmp_path / "file").touch()  # a home that cannot be made, whoever we are
    other = ("unshare", "--user", "--map-user=4711")  # a user without an entry in passwd
    done = poor(
        "-m", "remanence", *SMOKE, "--out", tmp_path / "runs", prefix=other, HOME=str(tmp_path / "file" / "home")
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nothing is cached") == 1
    assert f"the cache '{tmp_path}/file/home/.cache/remanence' cannot be used" in done.stderr
    assert "REMANENCE_CACHE names another directory" in done.stderr
    assert "Traceback" not in done.stderr


STRANGER = 4711  # no user of this machine


def becoming(user: int, stash: Path) -> tuple[str, ...]:
    """Runs a command as another user. In its namespace they can read this installation, even if it is below a closed home."""
    needed = [path for path in dict.fromkeys(map(Path, (sys.base_prefix, sys.prefix, SRC))) if _closed(path)]
    lines = [f"mkdir -p {stash}/{n}; mount --bind {path} {stash}/{n}" for n, path in enumerate(needed)]
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {top}" for top in dict.fromkeys(map(_closed, needed))]
    lines += [f"mkdir -p {path}; mount --bind {stash}/{n} {path}" for n, path in enumerate(needed)]
    lines.append(f'exec setpriv --reuid={user} --regid={user} --clear-groups --no-new-privs "$@"')
    return ("unshare", "--mount", "sh", "-ec", "\n".join(lines), "sh")


def _closed(path: Path) -> Path | None:
    """The uppermost directory on the way to a path that others cannot enter."""
    return next((top for top in reversed((path, *path.parents)) if not top.stat().st_mode & stat.S_IXOTH), None)


@pytest.fixture(scope="module")
def own() -> Iterator[Path]:
    """The only directory to which a user without a name, a home and a cache may write."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp(prefix="remanence-stranger-"))  # the directories of pytest are closed to others
    os.chown(folder, STRANGER, STRANGER)
    try:
        if subprocess.run([*becoming(STRANGER, folder / "stash"), "true"], check=False).returncode != 0:
            pytest.skip("this machine does not let a test become another user")
        yield folder
    finally:
        shutil.rmtree(folder)


def stranger(own: Path, *commands: tuple[str | Path, ...], **environment: str) -> str:
    """Commands of that user in one process, in a directory that is not theirs; gives what they printed. They have one notice."""
    code = f"from remanence.cli import main; print([main(one) for one in {[list(map(str, one)) for one in commands]}])"
    done = poor("-c", code, prefix=becoming(STRANGER, own / "stash"), cwd="/", **environment)
    assert done.stdout.endswith(f"{[0] * len(commands)}\n"), done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr.count("nothing is cached") == 1, done.stderr
    home = environment.get("HOME", os.devnull)
    assert f"the cache '{home}/.cache/remanence' cannot be used" in done.stderr
    assert SRC not in done.stderr  # the directory of the sources is not to blame
    return done.stdout


@pytest.mark.long
def test_another_user_runs_shows_and_reports_with_nothing_writable(own: Path) -> None:
    sources = Path(SRC, "remanence")
    before = {path for path in sources.rglob("*") if path.is_file()}
    said = stranger(
        own,
        (*SMOKE, "--out", own / "runs"),
        ("show", "figure2/tabular", "--out", own / "runs"),
        ("report", "figure2/tabular", "--out", own / "runs", "--to", own / "report"),
        ("theory",),
        HOME="/nonexistent",
    )
    assert "1 experiment: open" in said
    assert "theorem" in said
    assert all(path.stat().st_uid == STRANGER for path in (own / "runs").rglob("*"))
    assert (own / "report" / "index.html").is_file()
    assert {path for path in sources.rglob("*") if path.is_file()} == before


@pytest.mark.long
def test_another_user_runs_deep_agents_with_native_kernels(own: Path) -> None:
    """Kernels cannot be cached, and are compiled for this process alone. There is not even a variable HOME."""
    smoke = ("run", "figure5/minatar", "--preset", "smoke", "--contenders", "DQN", "--seeds", "1", "--steps", "200")
    stranger(own, (*smoke, "--learner", "native", "--out", own / "deep"), NUMBA_OPT="0")  # compiles faster


def test_another_users_out_directory_is_blamed(own: Path, tmp_path: Path) -> None:
    done = poor(
        "-m", "remanence", *SMOKE, "--out", tmp_path / "runs", prefix=becoming(STRANGER, own / "stash"), cwd="/"
    )
    assert done.returncode == 2, done.stderr
    assert f"cannot write to '{tmp_path}/runs" in done.stderr
    assert "permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_kernels_of_worlds_compile_without_a_cache(tmp_path: Path) -> None:
    """Numba refuses `cache=True` where neither the sources nor the home can be written to."""
    (tmp_path / "file").touch()
    code = "from remanence.worlds.jellybean import random; from numba.core.dispatcher import Dispatcher as D; " + (
        "print([type(f._cache).__name__ for f in vars(random).values() if isinstance(f, D)])"
    )
    for cache, kind in ((tmp_path / "file" / "cache", "NullCache"), (tmp_path / "own", "FunctionCache")):
        environment = {**os.environ, "PYTHONPATH": SRC, "REMANENCE_CACHE": str(cache)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
        assert set(eval(done.stdout)) == {kind}
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


def test_a_cache_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REMANENCE_CACHE", str(tmp_path / "cache"))
    found = backend.cache_directory("kernels", "a")
    assert found is not None
    assert found == tmp_path / "cache" / "kernels" / "a"
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in (found, tmp_path / "cache"))
    (tmp_path / "cache").chmod(0o777)
    assert backend.cache_directory("kernels", "a") is None
    assert backend.cache_directory("truth") is None
    assert capsys.readouterr().err.count("every user may write there") == 1
    (tmp_path / "cache").chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert backend.cache_directory("kernels", "a") is None
    assert "it belongs to another user" in capsys.readouterr().err


def test_a_character_that_cannot_be_written_is_replaced(tmp_path: Path) -> None:
    done = poor("-m", "remanence", "list", REMANENCE_CACHE=str(tmp_path), PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "agents ? " in done.stdout


def test_a_closed_terminal_stops_with_a_checkpoint(tmp_path: Path) -> None:
    """Standard error goes with the terminal."""
    ours, theirs = pty.openpty()
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored if the tests run under nohup, and inherited
    process = subprocess.Popen(command(tmp_path, 20_000, every=60.0), stderr=theirs, start_new_session=True)
    signal.signal(signal.SIGHUP, before)
    os.close(theirs)
    while process.poll() is None and not any(tmp_path.glob("*/*/groups/*/progress.json")):
        time.sleep(0.05)
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 128 + signal.SIGHUP
    group = groups_under_way(the_run(tmp_path))[0]
    assert events(group.path)[-1]["event"] == "stopped"
    assert any(group.checkpoints.iterdir())


@pytest.mark.long
def test_under_nohup_it_goes_on(tmp_path: Path) -> None:
    process = subprocess.Popen(
        ["nohup", *command(tmp_path, 400, every=60.0)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not any(tmp_path.glob("*/*/groups/*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    assert process.wait(120) == 0


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.EFBIG, "ulimit -f"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENFILE, "too many files are open on this machine"),
    ],
)
def test_limits_get_a_sentence(code: int, says: str) -> None:
    assert says in str(of_disk(OSError(code, os.strerror(code)), Path("x")))


def test_memory_gets_a_sentence_and_limits_count(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (
        MemoryError(),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory"),
        RuntimeError("can't start new thread"),
    ):
        assert "memory, or the number of threads, does not suffice" in str(of_memory(error))
    assert of_memory(RuntimeError("something else")) is None
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**20, 2**20))
    assert backend.memory() == 2**20


def test_the_directory_that_failed_is_blamed() -> None:
    with (
        pytest.raises(UserError, match="cannot write to '/elsewhere/file': permission denied"),
        disk_errors(Path("/the/run")),
    ):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/elsewhere/file")


def test_planted_files_do_no_harm_to_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Symlinks and pipes where a worker claims its core: nothing is overwritten, nothing waits, another core is claimed."""
    monkeypatch.setenv("REMANENCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    bound: list[list[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: bound.append(list(cores)))
    precious, places = tmp_path / "precious", backend.cache_directory("cores", socket.gethostname())
    assert places is not None
    precious.write_text("mine")
    (places / "0").symlink_to(precious)
    os.mkfifo(places / "1")
    with executors._claimed_cores(1):
        pass
    assert precious.read_text() == "mine"
    assert bound in ([[1]], [[2]])
    (tmp_path / "cache").chmod(0o777)
    with executors._claimed_cores(1):  # without a private place no core is claimed
        assert len(bound) == 1


def test_ray_without_an_address_is_new_and_its_files_are_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never the cluster that a file in the shared temporary directory names."""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    where = executors._where(None)
    assert where["address"] == "local"
    assert Path(where["_temp_dir"]).stat().st_mode & 0o777 == 0o700
    assert executors._where("10.0.0.1:6379") == {"address": "10.0.0.1:6379"}
