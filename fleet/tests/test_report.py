# SPDX-License-Identifier: GPL-2.0-or-later
"""The report against machines whose every page is known."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import subprocess
from collections import Counter
from datetime import timedelta

import pytest

from conftest import TOP
from made import NOON, Machine, Owner, hash_of, object_of, program, read_rows, tags_of, write
from zmeld_fleet import advice, cli, documents, plots, render_text, reporting, results
from zmeld_fleet.document import Bars, Table
from zmeld_fleet.estimate import Estimate
from zmeld_fleet.schema import CODECS
from zmeld_fleet.words import width

MACHINES = 8


def machines(k=1024, time=NOON, grown=0):
    """Web servers and databases: some equal, some not, one unlike the others."""
    made = []
    for at in range(MACHINES):
        web = at % 2 == 0
        owners = [
            Owner("/system.slice/ssh.service", program("ssh", 300, 200), zero=20, same=4),
            Owner("own", program(f"own{at}", 2500 + at + grown, 400)),
        ]
        if web:
            owners.append(Owner("nginx", program("nginx", 1800, 400), kind="container"))
        else:
            twice = {("db", at, page): 2 for page in range(1500)}
            owners.append(Owner("db", twice | program("postgres", 700, 400), kind="vm"))
        facts = {"uptime_seconds": 864000.0 + (time - NOON).total_seconds()}
        labels = {"role": "web" if web else "db"}
        made.append(Machine(f"host{at}", owners, labels, facts, time, k=k))
    return made


def exactly(chosen):
    """Twins by where they are, and bytes: from all pages, without any sketch."""
    within = between_owners = 0
    on_machines = Counter()
    takes = {(codec, melded): 0 for codec in CODECS for melded in (False, True)}
    for machine in chosen:
        holders = Counter()
        for owner in machine.owners:
            within += sum(owner.pages.values()) - len(owner.pages)
            holders.update(owner.pages.keys())
            for content, count in owner.pages.items():
                for codec in CODECS:
                    takes[codec, False] += count * object_of(hash_of(content), codec)
        between_owners += sum(holders.values()) - len(holders)
        on_machines.update(holders.keys())
        for content in holders:
            for codec in CODECS:
                takes[codec, True] += object_of(hash_of(content), codec)
    between = sum(on_machines.values()) - len(on_machines)
    return within, between_owners, between, takes


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    for machine in machines():
        write(place, machine)
    return place


@pytest.fixture(scope="module")
def report(place):
    return reporting.make(str(place), by="role")


def holds(estimate, truth):
    return estimate.low - 1 <= truth <= estimate.high + 1


def test_estimates_hold_the_exact_values(report):
    groups = {"web": machines()[::2], "db": machines()[1::2], "all machines": machines()}
    for kind in [*report.kinds, report.fleet]:
        within, between_owners, between, takes = exactly(groups[kind.name])
        assert holds(kind.duplicates.within_owners, within), kind.name
        assert holds(kind.duplicates.between_owners, between_owners), kind.name
        assert holds(kind.duplicates.between_machines, between), kind.name
        assert len(kind.setups) == 2 * len(CODECS)
        for setup in kind.setups:
            truth = takes[setup.codec.replace("-", "_"), setup.melded]
            assert holds(setup.takes, truth), (kind.name, setup, truth)


def test_sketches_that_hold_all_are_exact(tmp_path):
    for machine in machines(k=100_000):
        write(tmp_path, machine)
    fleet = reporting.make(str(tmp_path), by="role").fleet
    within, between_owners, between, takes = exactly(machines())
    assert fleet.share_sampled == 1.0
    assert fleet.duplicates.within_owners.value == within
    assert fleet.duplicates.between_owners.value == between_owners
    assert fleet.duplicates.between_machines.value == between
    for setup in fleet.setups:
        truth = takes[setup.codec.replace("-", "_"), setup.melded]
        # What several owners hold is known by its class of sizes alone.
        error = 0.01 * truth if setup.melded else 0
        assert abs(setup.takes.value - truth) <= error, (setup, truth)


def test_a_lowered_bound_is_still_right(place):
    from zmeld_fleet import analysis, catalogue, engines, places

    found = catalogue.read(places.open_place(str(place)))
    engine = engines.Engine()
    report = analysis.analyse(found, engine, "role", contents_max=2_000)
    engine.close()
    assert report.bound_share < 0.1
    _, between_owners, between, _ = exactly(machines())
    assert holds(report.fleet.duplicates.between_owners, between_owners)
    assert holds(report.fleet.duplicates.between_machines, between)


def test_the_order_of_uniting_does_not_matter(tmp_path, report):
    made = machines()
    for seed in range(3):
        random.Random(seed).shuffle(made)
        place = tmp_path / str(seed)
        for machine in made:
            machine.survey = f"{random.Random(seed).getrandbits(96):024x}{made.index(machine):08x}"
            write(place, machine)
        other = reporting.make(str(place), by="role", threads=1 + seed)
        assert results.plain(other.kinds) == results.plain(report.kinds)
        assert results.plain(other.fleet) == results.plain(report.fleet)
        assert results.plain(other.names) == results.plain(report.names)


@pytest.mark.long
def test_spark_says_the_same_to_the_last_bit(place, report):
    pytest.importorskip("pyspark")
    other = reporting.make(str(place), engine="spark", by="role", threads=2)
    other.engine = report.engine
    assert results.plain(other) == results.plain(report)
    assert repr(other) == repr(report)


def test_without_a_label_the_kind_is_distribution_ram_and_architecture(place):
    report = reporting.make(str(place))
    assert [kind.name for kind in report.kinds] == ["Debian GNU/Linux 12 (bookworm) 8 GiB x86_64"]


def test_change_over_time_has_each_day(tmp_path):
    for day in range(3):
        for machine in machines(time=NOON + timedelta(days=day), grown=400 * day):
            write(tmp_path, machine)
    report = reporting.make(str(tmp_path), by="role")
    assert [day.machines for day in report.days] == [MACHINES] * 3
    assert report.days[0].pages + 800 * MACHINES == report.days[2].pages
    assert report.machines == MACHINES and report.left_out == []


def test_a_machine_that_is_unlike_the_others_stands_out(tmp_path):
    made = machines()
    made[3].facts["swap_used_bytes"] = 4 * 2**30
    for machine in made:
        machine.labels = {"role": "all"}
        write(tmp_path, machine)
    report = reporting.make(str(tmp_path), by="role")
    assert ("host3", "swap used, of RAM") in [(one.host, one.measure) for one in report.standouts]


def test_text_fits_80_columns(report):
    text = render_text.render(documents.report_document(report), 80)
    assert max(width(line) for line in text.split("\n")) <= 80
    for word in ("lzo-rle", "zword", "DUPLICATES", "meld = ", "Nothing was left out"):
        assert word in text


def test_the_page_is_whole_and_loads_nothing(place, tmp_path, capsys):
    path = tmp_path / "page.html"
    assert cli.main(["report", str(place), "--by", "role", "--html", str(path)]) == 0
    html = path.read_text()
    seen = tags_of(html)
    assert {"svg", "table", "figure", "style"} <= seen and "script" not in seen
    assert "prefers-color-scheme:dark" in html and "var(--c1)" in html and "#0a0b" not in html
    assert "url(http" not in html and "@import" not in html


def test_json_is_what_the_documentation_lists(place, capsys):
    assert cli.main(["report", str(place), "--by", "role", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "zmeld.fleet.report/2"
    page = (TOP / "docs" / "fleet.md").read_text()
    for key in [*body, *body["kinds"][0], *body["kinds"][0]["setups"][0]]:
        assert f"| `{key}` |" in page, key


def test_the_documentations_queries_say_what_is_so(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    page = (TOP / "docs" / "fleet.md").read_text()
    services, contents, _ = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    made = machines()
    for machine in made:
        write(tmp_path, machine)
    found = duckdb.sql(services.replace("PLACE", str(tmp_path))).fetchall()
    at = {row[1]: row for row in found}
    held = sum(
        owner.zero + owner.same + sum(owner.pages.values())
        for machine in made
        for owner in machine.owners
        if owner.name == "own"
    )
    assert (at["own"][2], at["own"][3]) == (MACHINES, held * 4096)
    assert 0 < at["own"][4] < at["own"][3]
    ((estimated,),) = duckdb.sql(contents.replace("PLACE", str(tmp_path))).fetchall()
    truth = len(
        {content for machine in made for owner in machine.owners for content in owner.pages}
    )
    # The hashes are the same each time: a sample of some 5,000 contents of 30,000.
    assert abs(estimated - truth) < 0.1 * truth
    full = tmp_path / "full"
    for machine in machines(k=100_000):
        write(full, machine)
    ((exact,),) = duckdb.sql(contents.replace("PLACE", str(full))).fetchall()
    assert round(exact) == truth


def test_a_days_files_united_as_the_documentation_does_it_say_the_same(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    page = (TOP / "docs" / "fleet.md").read_text()
    *_, unite = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    paths = [write(tmp_path, machine) for machine in machines()]
    before = reporting.make(str(tmp_path), by="role")
    day = paths[0].parent
    duckdb.sql(unite.replace("PLACE", str(tmp_path)).replace("DAY", day.name[5:]))
    for path in paths[1:]:
        path.unlink()
    (day / ".united.parquet").rename(day / "united.parquet")
    after = reporting.make(str(tmp_path), by="role")
    assert [one.reason.value for one in after.left_out] == ["twice"]
    paths[0].unlink()
    whole = reporting.make(str(tmp_path), by="role")
    assert whole.left_out == [] and whole.files_seen == 1
    for found in (after, whole):
        for name in ("kinds", "fleet", "names", "days", "standouts"):
            assert results.plain(getattr(found, name)) == results.plain(getattr(before, name))


def test_tables_are_parquet(place, tmp_path, capsys):
    (tmp_path / "left_out.parquet").write_bytes(b"of yesterday")
    assert cli.main(["report", str(place), "--by", "role", "--parquet", str(tmp_path)]) == 0
    assert not (tmp_path / "left_out.parquet").exists()
    setups = read_rows(tmp_path / "setups.parquet")
    assert setups.num_rows == 3 * 2 * len(CODECS)
    assert not [name for name in tmp_path.iterdir() if name.name.startswith(".")]


def test_configurations_are_what_zmeld_takes(place, tmp_path, capsys, zmeld):
    assert cli.main(["report", str(place), "--by", "role", "--toml", str(tmp_path)]) == 0
    written = sorted(tmp_path.glob("*.toml"))
    assert [path.name for path in written] == ["db.toml", "web.toml"]
    for path in written:
        command = [zmeld, "config", "check", str(path), "--root", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_sizes_and_limits_are_those_of_zmeld_plan():
    for line in (TOP / "crates/zmeld-advice/src/sizes.txt").read_text().splitlines()[1:]:
        ratio, measured, size, limit = map(float, line.split())
        found = advice.size_percent(ratio, measured < advice.BASIS_MIN_PERCENT)
        assert (found, advice.limit_percent(found, ratio)) == (size, limit), line


def test_a_label_that_no_machine_has_is_one_line_with_those_there_are(tmp_path, capsys):
    machine = machines()[0]
    machine.labels = {"role": "web", "rack": "r1"}
    write(tmp_path, machine)
    page = tmp_path / "page.html"
    assert cli.main(["report", str(tmp_path), "--by", "rol", "--html", str(page)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and not page.exists()
    assert "--by rol: " in err and "rack, role" in err


def test_the_page_opens_with_what_is_freed_and_what_most_need(report):
    document = documents.report_document(report, 3.5)
    first, second = document.sections[:2]
    assert "can be freed" in document.lead
    assert [first.heading, second.heading] == ["In short", "Configuration"]
    said = dict(first.blocks[0].rows)
    assert " of 8" in said["machines saved"] and "at 3.5 per GiB" in said["worth"]
    # Two kinds with one advice are one row.
    alike = dataclasses.replace(report.kinds[0], name="other")
    report = dataclasses.replace(report, kinds=[report.kinds[0], alike])
    (row,) = documents.report_document(report).sections[1].blocks[0].rows
    assert row[2] == "8" and "other" in row[1] and report.kinds[0].name in row[1]


def test_every_estimate_in_a_table_has_its_interval(tmp_path):
    for machine in machines(k=256):
        write(tmp_path, machine)
    document = documents.report_document(reporting.make(str(tmp_path), by="role"))
    tables = [b for section in document.sections for b in section.blocks if isinstance(b, Table)]
    estimates = {"gains", "of RAM", "ratio", "memory used", "gains, of the pages"}
    cells = [
        cell
        for table in tables
        for row in table.rows
        for head, cell in zip(table.heads, row, strict=True)
        if head in estimates
    ]
    assert len(cells) > 50 and all("±" in cell or " to " in cell for cell in cells)


def test_intervals_are_drawn_where_they_are_and_names_are_whole():
    """46.3 to 50.5 was drawn as 44.8 to 49.0."""
    name = "a-name-that-is-long-enough-to-be-folded.example.org"
    exactly, vague = Estimate(0.5, 0.5, 0.5), Estimate(0.47, 0.463, 0.505)
    svg = plots.bars(Bars("caption", "axis title", [name], {"one": [exactly], "two": [vague]}))
    text = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    assert name in text.replace("\n", "") and "axis title" in text
    lines = r'LineCollection_[0-9]+">\s*<path d="M ([0-9.]+) [0-9.]+ \nL ([0-9.]+) '
    (half, _), ends = [tuple(map(float, found)) for found in re.findall(lines, svg)]
    zero = float(re.search(r'patch_3">\s*<path d="M ([0-9.]+) ', svg)[1])
    shares = [0.5 * (end - zero) / (half - zero) for end in ends]
    assert shares == pytest.approx([0.463, 0.505], abs=0.001)


def test_nothing_is_drawn_below_nothing(report):
    vague = Estimate(1.0, -500.0, 900.0)
    setups = [dataclasses.replace(setup, gains=vague) for setup in report.kinds[0].setups]
    kinds = [dataclasses.replace(report.kinds[0], setups=setups)]
    document = documents.report_document(dataclasses.replace(report, kinds=kinds))
    (bars,) = [b for section in document.sections for b in section.blocks if isinstance(b, Bars)]
    assert all(one.low == 0.0 for found in bars.series.values() for one in found)
