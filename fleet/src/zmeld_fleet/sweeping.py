# SPDX-License-Identifier: GPL-2.0-or-later
"""`zmeld numa sweep` in shards: on this machine, on Dask, or on Ray.

A shard is a `zmeld` of its own with a results file of its own, which has each point as
soon as it is finished. A worker that is lost costs the point that it was at: the shard is
started again and goes on from its file. The merged result is that of the sweep without
shards, to the byte.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ATTEMPTS_MAX = 4
"""Starts of one shard."""
REFUSED = 2
"""zmeld's exit code for wrong use: starting again would not help."""


class SweepError(Exception):
    """A shard that fails, or a program that is missing."""


@dataclass(frozen=True)
class Shard:
    """One part of a sweep."""

    zmeld: str
    arguments: tuple[str, ...]
    number: int
    of: int
    folder: str

    @property
    def results(self) -> Path:
        """Its points, as they are finished."""
        return Path(self.folder) / f"shard-{self.number}-of-{self.of}.jsonl"

    @property
    def command(self) -> list[str]:
        """What runs it, with one thread."""
        part = ["--shard", f"{self.number}/{self.of}", "--results", str(self.results)]
        quiet = ["--threads", "1", "--quiet"]
        return [self.zmeld, "numa", "sweep", *self.arguments, *part, *quiet]


@dataclass(frozen=True)
class Done:
    """A shard at its end."""

    number: int
    starts: int


def run_shard(shard: Shard) -> Done:
    """Runs a shard to its end, however often its worker is lost."""
    said = ""
    for start in range(1, ATTEMPTS_MAX + 1):
        with _alone(shard) as lock:
            done = subprocess.run(
                shard.command, capture_output=True, text=True, check=False, pass_fds=[lock]
            )
        if done.returncode == 0:
            return Done(shard.number, start)
        said = done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.returncode}"
        if done.returncode == REFUSED:
            break
    raise SweepError(f"shard {shard.number} of {shard.of}: {said}")


@contextmanager
def _alone(shard: Shard) -> Iterator[int]:
    """Nobody else writes the shard's file: a handle for the `zmeld` that does.

    A worker that is killed leaves its `zmeld` behind. That has the lock as long as it
    runs, and whoever starts the shard again waits, and finds its points.
    """
    with open(shard.results.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def shards(zmeld: str, arguments: Sequence[str], count: int, folder: Path) -> list[Shard]:
    """The parts of a sweep."""
    own = {"--shard", "--results", "--parquet", "--csv", "--json", "--html", "--svg", "--threads"}
    taken = sorted(own & {argument.partition("=")[0] for argument in arguments})
    if taken:
        raise SweepError(f"{taken[0]} is set here for each shard; give it before the --")
    folder.mkdir(parents=True, exist_ok=True)
    chosen = tuple(arguments)
    return [Shard(zmeld, chosen, at + 1, count, str(folder)) for at in range(count)]


def find_zmeld(name: str) -> str:
    """The program's path."""
    found = shutil.which(name)
    if found is None:
        raise SweepError(f"{name} is not there; name it with --zmeld")
    return found


Runner = Callable[[list[Shard], int, str | None], Iterator[Done]]


def locally(parts: list[Shard], workers: int, address: str | None) -> Iterator[Done]:
    """Processes of this machine."""
    del address
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(run_shard, shard) for shard in parts]
        try:
            for future in as_completed(running):
                yield future.result()
        finally:
            for future in running:
                future.cancel()


def on_dask(parts: list[Shard], workers: int, address: str | None) -> Iterator[Done]:
    """Dask: the cluster at an address, or one of this machine."""
    try:
        import distributed
    except ImportError as error:
        raise SweepError("Dask is missing: pip install 'zmeld-fleet[dask]'") from error
    own: dict[str, Any] = {
        "n_workers": workers,
        "threads_per_worker": 1,
        "dashboard_address": None,
    }
    with distributed.Client(address) if address else distributed.Client(**own) as client:
        running = client.map(run_shard, parts, retries=ATTEMPTS_MAX, pure=False)
        for _, done in distributed.as_completed(running, with_results=True):
            yield done


def on_ray(parts: list[Shard], workers: int, address: str | None) -> Iterator[Done]:
    """Ray: the cluster at an address, or one of this machine."""
    try:
        import ray
    except ImportError as error:
        raise SweepError("Ray is missing: pip install 'zmeld-fleet[ray]'") from error
    cores: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
    ray.init(address=address, log_to_driver=False, **cores)
    try:
        task = ray.remote(max_retries=ATTEMPTS_MAX)(run_shard)
        running = [task.remote(shard) for shard in parts]
        while running:
            ready, running = ray.wait(running)
            yield from ray.get(ready)
    finally:
        ray.shutdown()


RUNNERS: dict[str, Runner] = {"local": locally, "dask": on_dask, "ray": on_ray}


def merge(zmeld: str, parts: list[Shard], outputs: Sequence[str]) -> str:
    """Puts the shards together; what `zmeld numa merge` prints."""
    files = [str(shard.results) for shard in parts]
    command = [zmeld, "numa", "merge", *files, *outputs, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SweepError(done.stderr.strip().rpartition("\n")[2])
    return done.stdout
