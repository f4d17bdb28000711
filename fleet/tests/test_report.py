# SPDX-License-Identifier: GPL-2.0-or-later
"""The report against machines whose every page is known."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import subprocess

import numpy as np
import pytest

from conftest import TOP
from made import Machine, Owner, contents, program, tags_of, taken, write
from zmeld_fleet import advice, cli, documents, render_text, reporting, results, writing
from zmeld_fleet.document import Bars, Table
from zmeld_fleet.schema import CODECS
from zmeld_fleet.words import FleetError, width

MACHINES = 8


def machines(k=1024):
    """Web servers and databases: some equal, some not."""
    made = []
    for at in range(MACHINES):
        web = at % 2 == 0
        owners = [
            Owner("/system.slice/ssh.service", program("ssh", 300, 200), zero=20, same=4),
            Owner("own", program(f"own{at}", 2500 + at, 400)),
        ]
        if web:
            owners.append(Owner("nginx", program("nginx", 1800, 400), kind="container"))
        else:
            twice = np.repeat(contents(("db", at), 1500), 2)
            pages = np.concatenate([twice, program("postgres", 700, 400)])
            owners.append(Owner("db", pages, kind="vm"))
        labels = {"role": "web" if web else "db"}
        made.append(Machine(f"host{at}", owners, labels, {"ram_bytes": 2**27}, k=k))
    return made


def exactly(chosen):
    """Twins by where they are, and bytes: from all pages, without any sketch."""
    within = between_owners = 0
    everywhere = []
    takes = {(codec, melded): 0.0 for codec in CODECS for melded in (False, True)}
    for machine in chosen:
        distinct = [np.unique(owner.pages) for owner in machine.owners]
        within += sum(len(owner.pages) for owner in machine.owners) - sum(map(len, distinct))
        once = np.unique(np.concatenate(distinct))
        between_owners += sum(map(len, distinct)) - len(once)
        everywhere.append(once)
        for codec in CODECS:
            takes[codec, True] += taken(once, codec).sum()
            takes[codec, False] += sum(taken(o.pages, codec).sum() for o in machine.owners)
    joined = np.concatenate(everywhere)
    return within, between_owners, len(joined) - len(np.unique(joined)), takes


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    for machine in machines():
        write(place, machine)
    return place


@pytest.fixture(scope="module")
def report(place):
    return reporting.make(str(place), by="role")


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
        assert setup.takes.value == pytest.approx(truth, rel=0.02), (setup, truth)


def test_the_order_of_uniting_does_not_matter(tmp_path, report):
    made = machines()
    for seed in range(3):
        random.Random(seed).shuffle(made)
        place = tmp_path / str(seed)
        for machine in made:
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


def test_without_a_role_the_kind_is_distribution_ram_and_architecture(tmp_path, place):
    assert [kind.name for kind in reporting.make(str(place)).kinds] == ["db", "web"]
    for machine in machines():
        write(tmp_path, dataclasses.replace(machine, labels={}))
    report = reporting.make(str(tmp_path))
    assert [kind.name for kind in report.kinds] == ["Debian GNU/Linux 12 (bookworm) 1 GiB x86_64"]
    assert "--label role=NAME" in render_text.render(documents.report_document(report))


def test_text_fits_80_columns(report):
    text = render_text.render(documents.report_document(report), 80)
    assert max(width(line) for line in text.split("\n")) <= 80
    for word in ("lzo-rle", "zword", "DUPLICATES", "meld = ", "Nothing was left out", "at most"):
        assert word in text


def test_the_page_is_whole_and_loads_nothing(place, tmp_path, capsys):
    path = tmp_path / "page.html"
    assert cli.main(["report", str(place), "--by", "role", "--html", str(path)]) == 0
    html = path.read_text()
    seen = tags_of(html)
    assert {"table", "figure", "style"} <= seen and "script" not in seen
    assert "prefers-color-scheme:dark" in html and "var(--c1)" in html
    # Age first, then the one plot, the ranking, and what to put into zmeld.toml.
    order = ["surveyed 2026-03-14", "<figure>", "<table", "[tier.ram]", "Each codec</h2>"]
    assert [html.index(one) for one in order] == sorted(html.index(one) for one in order)
    assert html.count("<figure>") == 1
    assert "url(http" not in html and "@import" not in html


def test_json_is_what_the_documentation_lists(place, capsys):
    assert cli.main(["report", str(place), "--by", "role", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "zmeld.fleet.report/3"
    page = (TOP / "docs" / "fleet.md").read_text()
    kind, extremes = body["kinds"][0], body["extremes"][0]
    for key in [*body, *kind, *kind["setups"][0], *extremes]:
        assert f"| `{key}` |" in page, key


def test_the_documentations_queries_say_what_is_so(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    page = (TOP / "docs" / "fleet.md").read_text()
    services, distinct = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    made = machines(k=100_000)
    for machine in made:
        write(tmp_path, machine)
    found = duckdb.sql(services.replace("PLACE", str(tmp_path))).fetchall()
    at = {row[1]: row for row in found}
    held = sum(len(owner.pages) for m in made for owner in m.owners if owner.name == "own")
    assert (at["own"][2], at["own"][3]) == (MACHINES, held * 4096)
    assert 0 < at["own"][4] < at["own"][3]
    ((exact,),) = duckdb.sql(distinct.replace("PLACE", str(tmp_path))).fetchall()
    every = np.concatenate([owner.pages for machine in made for owner in machine.owners])
    assert round(exact) == len(np.unique(every))


def test_configurations_are_what_zmeld_takes(place, tmp_path, capsys, zmeld):
    assert cli.main(["report", str(place), "--by", "role", "--toml", str(tmp_path)]) == 0
    written = sorted(tmp_path.glob("*.toml"))
    assert [path.name for path in written] == ["db.toml", "web.toml"]
    for path in written:
        command = [zmeld, "config", "check", str(path), "--root", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_sizes_and_limits_are_those_of_zmeld_plan():
    for line in (TOP / "crates/zmeld-config/src/advice/sizes.txt").read_text().splitlines()[1:]:
        ratio, measured, size, limit = map(float, line.split())
        found = advice.size_percent(ratio, measured < advice.BASIS_MIN_PERCENT)
        assert (found, advice.limit_percent(found, ratio)) == (size, limit), line


def test_machines_without_the_label_are_told(tmp_path):
    for machine in machines()[:3]:
        machine.labels = {} if machine.name == "host0" else machine.labels
        write(tmp_path, machine)
    text = render_text.render(documents.report_document(reporting.make(str(tmp_path))))
    assert "1 machine has no label role: see the kind `without role`." in text


def test_what_melding_saves_never_contradicts_the_pool(tmp_path):
    """Where nothing repeats, half of all melded pools were larger than those without."""
    for at in range(4):
        owners = [Owner("own", contents(("own", at), 5000))]
        write(tmp_path, Machine(f"m{at}", owners, {"role": f"r{at % 2}"}, k=256))
    report = reporting.make(str(tmp_path))
    takes = [setup.takes.value for kind in report.kinds for setup in kind.setups]
    assert any(plain < melded for plain, melded in zip(takes[::2], takes[1::2], strict=True))
    (table,) = (
        section.blocks[0]
        for section in documents.report_document(report).sections
        if section.heading == "Each codec"
    )
    assert all(row[-1].startswith("at most ") for row in table.rows)
    some = documents._saved(*reporting.make(str(twice(tmp_path / "twice"))).fleet.setups[4:6])
    assert "±" in some or " to " in some


def twice(place):
    """A machine whose pages are all there twice."""
    write(place, Machine("m", [Owner("own", np.repeat(contents("own", 5000), 2))]))
    return place


@pytest.mark.parametrize("option", ["--html", "--prometheus"])
def test_a_file_that_cannot_be_is_told_before_and_by_its_name(place, tmp_path, capsys, option):
    """A name of ours was told, after all was computed."""
    (key := tmp_path / "fleet.key").write_bytes(b"5a" * 32)
    for path, said in (
        (tmp_path / "no" / "x", "there is no folder"),
        (tmp_path, "is a folder"),
        (key, "it is there already"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(["report", str(tmp_path / "nowhere"), option, str(path)])
        assert ended.value.code == 2
        assert f"{path}: " in (err := capsys.readouterr().err) and said in err
    with pytest.raises(FleetError, match=f"{tmp_path}: cannot be written: Is a directory"):
        writing.write_whole(tmp_path, b"")
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []
    assert key.read_bytes() == b"5a" * 32


def test_a_label_that_no_machine_has_is_one_line_with_those_there_are(tmp_path, capsys):
    machine = machines()[0]
    machine.labels = {"role": "web", "rack": "r1"}
    write(tmp_path, machine)
    page = tmp_path / "page.html"
    assert cli.main(["report", str(tmp_path), "--by", "rol", "--html", str(page)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and not page.exists()
    assert "--by rol: " in err and "rack, role" in err


def test_every_estimate_in_a_table_has_its_interval(tmp_path):
    for machine in machines(k=256):
        write(tmp_path, machine)
    document = documents.report_document(reporting.make(str(tmp_path), by="role"))
    tables = [b for section in document.sections for b in section.blocks if isinstance(b, Table)]
    estimates = {"ratio", "pool", "frees at most", "melding saves", "gains at most"}
    estimates |= {"of the pages"}
    cells = [
        cell
        for table in tables
        for row in table.rows
        for head, cell in zip(table.heads, row, strict=True)
        if head in estimates
    ]
    assert len(cells) > 40
    assert all("±" in cell or " to " in cell or "at most" in cell for cell in cells)


def test_bars_are_as_long_as_what_they_stand_for(report):
    (bars,) = [
        block
        for section in documents.report_document(report).sections
        for block in section.blocks
        if isinstance(block, Bars)
    ]
    assert [name for name, _ in bars.rows] == [kind.name for kind, _ in documents.ranking(report)]
    for kind, advised in documents.ranking(report):
        ((freed, most),) = [values for name, values in bars.rows if name == kind.name]
        assert freed is None
        assert most == pytest.approx(advised.setup.gains.value / kind.ram_bytes)
    more = dataclasses.replace(bars, rows=[("a", [0.25, 0.5]), ("b", [None, 0.1])])
    from zmeld_fleet import render_html

    html = render_html._bars(more)
    assert re.findall(r"calc\(([0-9.]+)%", html) == ["50.00", "100.00", "0.00", "20.00"]
    assert "not known" in html and "25.0 %" in html
