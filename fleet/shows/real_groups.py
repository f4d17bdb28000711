# SPDX-License-Identifier: GPL-2.0-or-later
"""To show 2, a first step: eight groups of real processes, some equal, against exact merges.

As root, on control groups of version 1 or 2:

    PYTHONPATH=fleet/src python fleet/shows/real_groups.py ZMELD PLACE

Starts programs in control groups of their own and stops them, so that nothing changes.
Surveys the machine with ZMELD into PLACE. Then each pair of groups, and all of them, are
put under one group in turn, and `zmeld scan --cgroup` reads and compares all their pages;
that is held against what the sketches say.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import unions

NODE = "const x=[];for(let i=0;i<200000;i++)x.push({i,s:'row '+i});setInterval(()=>x.length,1e6)"
PYARROW = "import pyarrow.compute,time;x=[str(i) for i in range(300000)];time.sleep(1e6)"
RUBY = "x=(0...200000).map{|i| 'row '+i.to_s};sleep"
PHP = "$x=[];for($i=0;$i<300000;$i++)$x[]='row '.$i;sleep(1000000);"
PERL = "my @x=map{'row '.$_}0..300000;sleep"
SQLITE = (
    "import sqlite3,time;c=sqlite3.connect(':memory:');c.execute('create table t(a,b)');"
    "c.executemany('insert into t values(?,?)',((i,'row %d'%i) for i in range(300000)));"
    "time.sleep(1e6)"
)
PROGRAMS = {
    "node-1": ["node", "-e", NODE],
    "node-2": ["node", "-e", NODE],
    "pyarrow-1": [sys.executable, "-c", PYARROW],
    "pyarrow-2": [sys.executable, "-c", PYARROW],
    "sqlite": [sys.executable, "-c", SQLITE],
    "ruby": ["ruby", "-e", RUBY],
    "php": ["php", "-r", PHP],
    "perl": ["perl", "-e", PERL],
}
SETTLE_S = 12


def main() -> int:
    """Prints a table, and ends with 1 where fewer than 94 % are covered."""
    zmeld, place = sys.argv[1], sys.argv[2]
    memory = Path("/sys/fs/cgroup/memory")
    top = (memory if memory.exists() else Path("/sys/fs/cgroup")) / "zmeld-show"
    processes: dict[str, subprocess.Popen] = {}
    try:
        for name, command in PROGRAMS.items():
            (top / name).mkdir(parents=True, exist_ok=True)
            processes[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            (top / name / "cgroup.procs").write_text(str(processes[name].pid))
        time.sleep(SETTLE_S)
        for process in processes.values():
            process.send_signal(signal.SIGSTOP)
        return compare(zmeld, place, top, processes)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
        time.sleep(0.5)
        for name in [*PROGRAMS, "pair", ""]:
            if (top / name).exists():
                os.rmdir(top / name)


def survey(zmeld: str, place: str) -> list[unions.Sketch]:
    """The sketches of the groups."""
    Path(place).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        key = f"{folder}/key"
        subprocess.run([zmeld, "scan", "--survey-new-key", key], check=True, stdout=-3)
        subprocess.run([zmeld, "scan", "--survey", place, "--key", key], check=True, stdout=-3)
    newest = max(Path(place).rglob("*.parquet"), key=lambda path: path.stat().st_mtime)
    found = [one for one in unions.read([str(newest)]) if "zmeld-show/" in one.owner]
    assert len(found) == len(PROGRAMS), [one.owner for one in found]
    return found


def exactly(zmeld: str, group: str) -> dict[str, int]:
    """All pages of a control group compared."""
    command = [zmeld, "scan", "--cgroup", group, "--shared", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["pages"]


def compare(zmeld: str, place: str, top: Path, processes: dict[str, subprocess.Popen]) -> int:
    """Each group, each pair, all."""
    sketches = {Path(one.owner).name: one for one in survey(zmeld, place)}
    exact = {name: exactly(zmeld, f"zmeld-show/{name}") for name in sketches}
    hits = []

    def show(what: str, estimate: unions.Estimate, truth: int) -> None:
        hits.append(estimate.low <= truth <= estimate.high)
        ends = f"{estimate.low:9.0f} to {estimate.high:9.0f}"
        print(
            f"{what:34} {truth:9} {estimate.value:9.0f}  {ends}  {'' if hits[-1] else 'outside'}"
        )

    print(f"{'contents':34} {'exact':>9} {'estimate':>9}  95 % interval")
    for name, sketch in sorted(sketches.items()):
        show(f"{name}, distinct", unions.distinct([sketch]), exact[name]["unique"])
    pair = top / "pair"
    pair.mkdir(exist_ok=True)
    for one, other in itertools.combinations(sorted(sketches), 2):
        for name in (one, other):
            (pair / "cgroup.procs").write_text(str(processes[name].pid))
        union = exactly(zmeld, "zmeld-show/pair")["unique"]
        for name in (one, other):
            (top / name / "cgroup.procs").write_text(str(processes[name].pid))
        truth = exact[one]["unique"] + exact[other]["unique"] - union
        show(f"{one} and {other}", unions.shared(sketches[one], sketches[other]), truth)
    whole = exactly(zmeld, "zmeld-show")
    show("all, distinct", unions.distinct(sketches.values()), whole["unique"])
    show("all, dropped by melding", unions.dropped(sketches.values()), whole["duplicate"])
    print(f"{sum(hits)} of {len(hits)} are inside of their intervals")
    return 0 if sum(hits) >= 0.94 * len(hits) else 1


if __name__ == "__main__":
    sys.exit(main())
