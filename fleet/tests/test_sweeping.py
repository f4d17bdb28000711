# SPDX-License-Identifier: GPL-2.0-or-later
"""A sweep in shards is the sweep without them, also after workers were lost."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zmeld_fleet import cli, sweeping

SWEEP = ["--over", "workload.processes=2,3,4,5,6,7", "--replications", "2"]
SLOW = ["--over", "workload.processes=40,50,60,70,80,90,100,110", "--replications", "12"]


def whole(zmeld, tmp_path, sweep):
    path = tmp_path / "whole.parquet"
    results = str(tmp_path / "whole.jsonl")
    command = [zmeld, "numa", "sweep", *sweep, "--parquet", str(path), "--results", results]
    subprocess.run([*command, "--quiet"], check=True, capture_output=True, timeout=120)
    return path.read_bytes()


def arguments(zmeld, tmp_path, sweep, *more):
    made = ["sweep", "--zmeld", zmeld, "--results", str(tmp_path / "shards"), "--shards", "3"]
    made += ["--workers", "2", "--parquet", str(tmp_path / "merged.parquet"), *more]
    return [*made, "--", *sweep]


def test_shards_give_the_same_file(zmeld, tmp_path, capsys):
    assert cli.main(arguments(zmeld, tmp_path, SWEEP)) == 0
    assert (tmp_path / "merged.parquet").read_bytes() == whole(zmeld, tmp_path, SWEEP)
    assert "workload.processes" in capsys.readouterr().out
    # All is there: a second run computes nothing, and says the same.
    assert cli.main(arguments(zmeld, tmp_path, SWEEP)) == 0


def test_a_shard_that_is_killed_goes_on(zmeld, tmp_path, monkeypatch):
    """Each shard's first process is killed when it has finished a point."""
    real = subprocess.run
    killed = []

    def run(command, **named):
        if "--shard" not in command or command in killed:
            return real(command, **named)
        killed.append(command)
        results = Path(command[command.index("--results") + 1])
        process = subprocess.Popen(command, stdout=-3, stderr=-3)
        # Its header and a point; with a deadline, since it may be done before.
        while process.poll() is None and not (
            results.exists() and results.read_bytes().count(b"\n") >= 2
        ):
            time.sleep(0.001)
        process.kill()
        process.wait()
        # However fast it was: one point stays, and half of the next.
        lines = results.read_bytes().split(b"\n")
        results.write_bytes(b"\n".join([*lines[:2], lines[0][:20]]))
        return subprocess.CompletedProcess(command, -signal.SIGKILL, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert cli.main(arguments(zmeld, tmp_path, SLOW)) == 0
    assert len(killed) == 3
    monkeypatch.undo()
    assert (tmp_path / "merged.parquet").read_bytes() == whole(zmeld, tmp_path, SLOW)


def test_the_command_itself_killed_goes_on(zmeld, tmp_path):
    command = [sys.executable, "-m", "zmeld_fleet", *arguments(zmeld, tmp_path, SLOW)]
    paths = [path for path in sys.path if path.endswith("src")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    first = subprocess.Popen(command, env=environment, stdout=-3, stderr=-3)
    while first.poll() is None and not list((tmp_path).glob("shards/*.jsonl")):
        time.sleep(0.01)
    # Alone: the zmelds that it started live on, and would write beside new ones.
    first.kill()
    first.wait()
    subprocess.run(command, env=environment, check=True, stdout=-3, timeout=120)
    assert (tmp_path / "merged.parquet").read_bytes() == whole(zmeld, tmp_path, SLOW)
    for shard in (tmp_path / "shards").glob("*.jsonl"):
        points = [line for line in shard.read_text().split("\n") if line.startswith('{"point"')]
        assert len(points) == len(set(points)) >= 2


def test_a_shard_waits_for_the_zmeld_that_a_lost_worker_left(zmeld, tmp_path):
    """The lock belongs to the child, too: it outlives the worker."""
    shard = sweeping.shards(zmeld, SWEEP, 1, tmp_path)[0]
    with sweeping._alone(shard) as lock:
        left = subprocess.Popen(["sleep", "60"], pass_fds=[lock])
    with open(shard.results.with_suffix(".lock"), "w") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left.kill()
        left.wait()
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.long
@pytest.mark.parametrize("where", ["dask", "ray"])
def test_dask_and_ray_give_the_same_file(zmeld, tmp_path, where):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[where])
    assert cli.main(arguments(zmeld, tmp_path, SWEEP, "--on", where)) == 0
    assert (tmp_path / "merged.parquet").read_bytes() == whole(zmeld, tmp_path, SWEEP)


def test_what_is_wrong_is_said_in_one_line(zmeld, tmp_path, capsys):
    wrong = ["--over", "workload.nothing=1,2"]
    assert cli.main(arguments(zmeld, tmp_path, wrong)) == 2
    assert "shard" in capsys.readouterr().err
    assert cli.main(arguments(zmeld, tmp_path, ["--shard", "1/2"])) == 2
    assert cli.main(arguments("/no/zmeld", tmp_path, SWEEP)) == 2
    assert sweeping.shards("z", ["--over=a=1"], 2, tmp_path)[1].command[-3:] == [
        "--threads",
        "1",
        "--quiet",
    ]
