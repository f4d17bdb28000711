# SPDX-License-Identifier: GPL-2.0-or-later
"""Fleets with counted truth: how many machines, what is idle, what melding takes."""

from __future__ import annotations

import re
from collections import Counter
from datetime import timedelta

import numpy as np
import pytest

from made import GIB, NOON, PAGE, Machine, Owner, contents, mixed, program, taken, write
from test_report import exactly
from zmeld_fleet import analysis, documents, render_text, reporting
from zmeld_fleet.schema import CODECS

DAY = timedelta(days=1)


def anew(host: str, day: int, uptime: float = 3600.0) -> Machine:
    """A host that is installed again each day."""
    owners = [Owner("nginx.service", program("nginx", 300, 60))]
    facts = {"host": host, "uptime_seconds": uptime}
    return Machine(f"{host} {day}", owners, {}, facts, NOON + DAY - day * DAY)


def shown(report: analysis.Report) -> str:
    """What a reader sees, in one line."""
    return " ".join(render_text.render(documents.report_document(report), 200).split())


def reasons_of(report: analysis.Report) -> list[str]:
    """Why something is left out."""
    return [one.reason.value for one in report.left_out]


def test_hosts_made_anew_each_day_are_as_many_as_there_are_hosts(tmp_path):
    """They were 200 machines."""
    for host in range(20):
        for day in range(10):
            write(tmp_path, anew(f"host{host}", day))
    report = reporting.make(str(tmp_path))
    assert report.machines == 20 == report.fleet.machines
    assert report.silent == [] and "silent" not in shown(report)
    assert Counter(reasons_of(report)) == {"replaced": 20}
    assert "20 machines, surveyed 2026-03-15" in shown(report)


def test_hosts_of_one_name_that_run_at_once_are_several_and_named(tmp_path):
    for at in range(5):
        write(tmp_path, Machine(f"m{at}", anew("x", 0).owners, {}, {"host": "localhost"}))
        old = anew("web1", at % 2, uptime=30 * 86400.0)
        old.name = f"web {at}"
        write(tmp_path, old)
    report = reporting.make(str(tmp_path))
    assert report.machines == 10
    assert report.repeated_hosts == {"localhost": 5, "web1": 5}
    assert "localhost (5), web1 (5)" in shown(report)


def test_machines_that_are_gone_do_not_count_and_are_listed(tmp_path):
    for at in range(20):
        whose = anew(f"host{at}", 0 if at < 5 else 89)
        write(tmp_path, whose)
    report = reporting.make(str(tmp_path))
    assert report.machines == 5 and len(report.silent) == 15
    assert {one.host for one in report.silent} == {f"host{at}" for at in range(5, 20)}
    text = shown(report)
    assert "15 machines have gone silent" in text and "host7 2025-12-16T12:00:00Z" in text


def test_who_is_gone_is_one_machine_and_another_key_makes_nobody_silent(tmp_path):
    """Keyed ids are others with another key; a host made anew was one machine for each day."""
    write(tmp_path, anew("there", 0))
    for day in range(10, 15):
        write(tmp_path, anew("gone", day))
        nameless = anew("", day)
        nameless.name, nameless.facts["host"] = "nameless", None
        write(tmp_path, nameless)
        other = anew("elsewhere", day)
        other.facts["key_id"] = "feedfeedfeedfeed"
        write(tmp_path, other)
    report = reporting.make(str(tmp_path))
    last = {(one.host, one.last) for one in report.silent}
    assert last == {(host, NOON - 9 * DAY) for host in ("gone", "–")} and len(report.silent) == 2


def test_machines_under_pressure_gave_no_survey_and_are_counted_as_such(tmp_path):
    write(tmp_path, anew("calm", 0))
    for at, day in enumerate((0, 1)):
        facts = {"interrupted": True, "memory_some_avg300": 34.5}
        whose = Machine(f"short{at}", [], {}, facts, NOON + DAY - day * DAY)
        write(tmp_path, whose)
    report = reporting.make(str(tmp_path))
    assert (report.machines, len(report.refused)) == (1, 2)
    text = shown(report)
    assert "2 machines gave no survey since memory was short" in text and "34.5 %" in text


@pytest.mark.parametrize(
    ("refused", "skipped", "said"),
    [(9, 9, "some (0.9 %)"), (2, 10, None), (1, 990, "some (50.0 %)")],
)
def test_below_one_percent_of_memory_unread_a_machine_counts(tmp_path, refused, skipped, said):
    """Of processes it was: one of fifty, as in a container, dropped the machine."""
    write(tmp_path, anew("whole", 0))
    owners = [Owner("x", program("x", 990), facts={"pages_skipped": skipped})]
    write(tmp_path, Machine("some", owners, {}, {"processes_refused": refused}))
    report = reporting.make(str(tmp_path))
    counts = said is not None
    assert report.machines == 1 + counts and len(report.partly_refused) == counts
    assert ("could not be read" in shown(report)) == counts and (said or "") in shown(report)
    assert reasons_of(report) == ([] if counts else ["partial"])


def idle_machine(at: int, idle: int, locked: int = 0, **facts: object) -> Machine:
    """10,000 pages of one service, some of them idle, some locked."""
    ages = {"idle_1m": 2 * idle, "idle_10m": idle, "idle_1h": idle // 2, "pages_locked": locked}
    owners = [Owner("own", program(f"own{at}", 8000, 1000), zero=1000, facts=ages)]
    facts = {"ram_bytes": GIB} | facts
    return Machine(f"host{at}", owners, {"role": "web"}, facts)


def test_what_is_idle_is_said_and_the_rest_is_at_most(tmp_path):
    for at in range(10):
        write(tmp_path, idle_machine(at, 3000, locked=2000))
    report = reporting.make(str(tmp_path))
    kind = report.fleet
    assert kind.idle.pages_10m == 30_000 and kind.pages_locked == 20_000
    pages = program("own0", 8000, 1000)
    for setup in kind.setups:
        if not setup.melded:
            mean = 0.9 * taken(pages, setup.codec.replace("-", "_")).mean()
            assert setup.idle_gains == pytest.approx(30_000 * (PAGE - mean), rel=0.03)
            assert setup.gains.value == pytest.approx(80_000 * (PAGE - mean), rel=0.03)
    text = shown(report)
    assert "117 MiB of memory was not used for ten minutes" in text
    assert "at most" in text and "machines saved" not in text and "can be freed" not in text


def test_the_lead_says_what_the_configurations_free_and_of_what(tmp_path):
    """It said what those of one kind free as if all idle memory were compressed."""
    for at in range(10):
        write(tmp_path, idle_machine(at, 6000, locked=2000))
        old = idle_machine(10 + at, 1000, zram_codecs="lzo")
        old.labels = {"role": "old"}
        write(tmp_path, old)
    found = reporting.make(str(tmp_path))
    mean = 0.9 * taken(program("own0", 8000, 1000), "zstd").mean()
    lead = documents.report_document(found).lead
    assert "273 MiB of memory was not used" in lead
    shown = r"free ([0-9.]+) MiB.* at most ([0-9.]+) MiB.*\(([0-9.]+) MiB"
    freed, most, of = map(float, re.findall(shown, lead)[0])
    assert freed == pytest.approx(60_000 * (PAGE - mean) / 2**20, rel=0.03)
    assert most == pytest.approx(80_000 * (PAGE - mean) / 2**20, rel=0.03)
    assert of == pytest.approx(80_000 * PAGE / 2**20, rel=0.03)


def test_where_kernels_do_not_say_what_is_idle_the_report_says_so(tmp_path):
    write(tmp_path, anew("a", 0))
    report = reporting.make(str(tmp_path))
    assert report.fleet.idle is None and "not say what is idle" in shown(report)


def advised(place, **facts: object) -> str:
    """The advice for machines with a quarter of RAM idle, half of it there twice."""
    for at in range(3):
        twice = np.repeat(contents(f"own{at}", 30_000), 2)
        owners = [Owner("own", twice, facts={"idle_10m": 60_000})]
        write(place, Machine(f"host{at}", owners, {}, {"ram_bytes": GIB} | facts))
    ((_, found),) = documents.ranking(reporting.make(str(place)))
    return found.toml.replace("\n# ", " ")


def test_nothing_is_advised_that_a_machine_cannot_have(tmp_path):
    assert 'kind = "zmeld"' in advised(tmp_path / "a", modules=True)
    none = advised(tmp_path / "b", modules=False)
    assert 'kind = "zram"' in none and "no module can be loaded" in none
    lacking = advised(tmp_path / "c", zram_codecs="lzo lz4")
    assert 'codec = "lz4"' in lacking and "more; zram lacks it on some" in lacking
    old = advised(tmp_path / "d", kernel="3.10.0-1160.el7.x86_64", modules=False)
    assert 'codec = "lzo-rle"' not in old and 'codec = "zstd"' not in old
    assert "No compressed swap" in advised(tmp_path / "e", zram_codecs="lzo 842")
    # 117 MiB are idle of 16 TiB.
    assert "less than 1 %" in advised(tmp_path / "f", ram_bytes=16 << 40)


DISTRIBUTIONS = {
    "normal": lambda random: 0.4 + 0.05 * random.standard_normal(),
    "lognormal": lambda random: 0.2 * np.exp(0.3 * random.standard_normal()),
    "zero-inflated": lambda random: random.exponential(0.1) if random.random() < 0.07 else 0.0,
    "bimodal": lambda random: random.choice([0.1, 0.5]) + 0.02 * random.standard_normal(),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_of_equal_machines_none_is_judged(tmp_path, name):
    """Whatever the distribution: both ends are named beside the kind's quantiles."""
    random = np.random.default_rng(7)
    values = {}
    for at in range(30):
        values[f"host{at}"] = share = float(np.clip(DISTRIBUTIONS[name](random), 0.0, 1.0))
        facts = {"ram_bytes": GIB, "swap_used_bytes": int(share * GIB)}
        write(tmp_path, Machine(f"host{at}", anew("x", 0).owners, {"role": "r"}, facts))
    report = reporting.make(str(tmp_path))
    (one,) = [one for one in report.extremes if one.measure == "swap used, of RAM"]
    order = sorted(values.values())
    assert [found.value for found in one.lowest] == pytest.approx(order[:5], abs=1e-9)
    assert [found.value for found in one.highest] == pytest.approx(order[:-6:-1], abs=1e-9)
    for quantile, at in analysis.QUANTILES.items():
        assert one.quantiles[quantile] == pytest.approx(np.quantile(order, at), abs=1e-9)
    assert all(values[found.host] == pytest.approx(found.value) for found in one.highest)
    text = shown(report).lower()
    assert "stand out" not in text and "does not judge" in text


def mixed_fleet(random: np.random.Generator, machines: int) -> list[Machine]:
    """Services that share libraries on a machine, on all machines, and one machine 30 times
    larger."""
    seed = int(random.integers(1 << 40))
    made = []
    for at in range(machines):
        owners = []
        for name, own, library in (("ssh", 100, 300), ("web", 1500, 500), ("db", 4000, 600)):
            size = own * (30 if at == 0 and name == "db" else 1)
            parts = [contents((seed, name), own // 2), contents((seed, name, at), size)]
            parts.append(contents((seed, "libc"), library))
            twice = contents((seed, name, at), size // 5)
            owners.append(Owner(name, np.concatenate([*parts, twice])))
        role = "web" if at % 3 else "db"
        made.append(Machine(f"{seed}-{at}", owners, {"role": role}, k=256))
    return made


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """Reports of fleets of 12 and 24 machines, with what is true of each kind."""
    random = np.random.default_rng(20261128)
    found = []
    for trial in range(40):
        made = mixed_fleet(random, 12 if trial % 2 else 24)
        place = tmp_path_factory.mktemp("fleet")
        for machine in made:
            write(place, machine)
        report = reporting.make(str(place))
        for kind in [*report.kinds, report.fleet]:
            own = [m for m in made if kind.name in (m.labels["role"], "all machines")]
            found.append((kind, exactly(own)))
    return found


@pytest.mark.parametrize("melded", [False, True])
@pytest.mark.parametrize("codec", CODECS)
def test_intervals_of_pools_hold_what_is_so_and_no_more(trials, codec, melded):
    """93 to 97 % of many, and so wide as the estimates differ from the truth."""
    hits, errors, widths = [], [], []
    for kind, (*_, takes) in trials:
        name, truth = codec.replace("_", "-"), takes[codec, melded]
        (setup,) = [s for s in kind.setups if (s.codec, s.melded) == (name, melded)]
        hits.append(setup.takes.low <= truth <= setup.takes.high)
        errors.append(setup.takes.value / truth - 1.0)
        widths.append((setup.takes.high - setup.takes.low) / 2 / truth)
    assert np.mean(hits) >= 0.91, np.mean(hits)
    assert np.sqrt(np.mean(np.square(widths))) < 1.3 * 1.96 * np.sqrt(np.mean(np.square(errors)))


@pytest.mark.parametrize("codec", CODECS)
def test_intervals_of_what_melding_saves_hold_what_is_so(trials, codec):
    hits = []
    for kind, (*_, takes) in trials:
        plain, melded = (s for s in kind.setups if s.codec == codec.replace("_", "-"))
        saved = plain.less(melded)
        hits.append(saved.low <= takes[codec, False] - takes[codec, True] <= saved.high)
    assert np.mean(hits) >= 0.91, np.mean(hits)


def test_intervals_of_duplicates_hold_what_is_so(trials):
    for at, name in enumerate(("within_owners", "between_owners", "between_machines")):
        hits = []
        for kind, truth in trials:
            estimate = getattr(kind.duplicates, name)
            hits.append(estimate.low <= truth[at] <= estimate.high)
        assert np.mean(hits) >= 0.9, (name, np.mean(hits))


def test_intervals_shrink_as_a_fleet_of_different_machines_grows(tmp_path):
    widths = []
    for machines in (10, 160):
        place = tmp_path / str(machines)
        for at in range(machines):
            owner = Owner("own", contents(("own", at), 5000))
            write(place, Machine(f"m{at}", [owner], {"role": "x"}, k=256))
        setup = reporting.make(str(place)).fleet.setups[-1]
        widths.append((setup.takes.high - setup.takes.low) / setup.takes.value)
    # Four times narrower for 16 times as many; added widths stay as they are.
    assert 3.0 < widths[0] / widths[1] < 5.0


def test_of_a_fleet_too_large_to_read_whole_machines_are_drawn(tmp_path, monkeypatch):
    random = np.random.default_rng(5)
    made = mixed_fleet(random, 60)[1:]
    for machine in made:
        write(tmp_path, machine)
    _, between, _, takes = exactly(made)
    whole = reporting.make(str(tmp_path)).fleet
    monkeypatch.setattr(analysis, "CONTENTS_MAX", 10_000)
    monkeypatch.setattr(analysis, "MACHINES_MIN", 5)
    drawn = reporting.make(str(tmp_path)).fleet
    for kind in (whole, drawn):
        setup = kind.setups[5]
        assert setup.codec == "zstd" and setup.takes.low <= takes["zstd", True] <= setup.takes.high
        assert kind.duplicates.between_owners.low <= between <= kind.duplicates.between_owners.high
    assert drawn.share_sampled < whole.share_sampled
    assert mixed(np.arange(2)).dtype == np.uint64
