# SPDX-License-Identifier: GPL-2.0-or-later
"""Surveys by a machine that writes whatever it wants: the others' still count."""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from made import (
    NOON,
    Machine,
    Owner,
    changed,
    left,
    look,
    plain,
    program,
    put,
    sound,
    table_of,
    tags_of,
    write,
)
from zmeld_fleet import catalogue, cli, places, reporting, schema, unite

NASTY = [
    '=HYPERLINK("http://x";"y")',
    "<img src=x onerror=alert(1)>\"'</svg><script>",
    "[x](javascript:alert(1)) | **b** | `c`\n# d",
    "'; DROP TABLE rows; --\"",
    "\x1b]0;title\x07\x1b[2J\x9b31m",
    "$(reboot) `reboot` ${x} %s {0} $\\frac{1}{2}$",
    "\u202e\u2066\u200b\ufeff\u2028\u0085\u00ad\U000e0041",
    'a\r\nkind = "zmeld"\n[tier.other]',
    "../../../etc/passwd",
    "e" + "\u0301" * 300,
    "x" * 4000,
    "",
]


def test_texts_of_machines_are_texts_in_every_form(tmp_path, capsys):
    toml = pytest.importorskip("tomllib")
    place, out = tmp_path / "place", tmp_path / "out"
    for at, text in enumerate(NASTY):
        names = ("host", "distribution", "architecture", "kernel", "compressed_swap")
        owners = [Owner(text or "-", program(f"p{at}", 6000), kind="vm")]
        facts = dict.fromkeys(names, text)
        write(place, Machine(f"m{at}", owners, {"role": text, text: "x"}, facts))
    arguments = ["report", str(place), "--by", "role", "--html", str(tmp_path / "page.html")]
    arguments += ["--prometheus", str(tmp_path / "fleet.prom"), "--toml", str(out)]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr()
    assert cli.main(["report", str(place), "--json"]) == 0
    as_json = capsys.readouterr().out
    assert json.loads(as_json)["machines"] == len(NASTY) and as_json.isascii()
    page = (tmp_path / "page.html").read_text()
    for text in (shown.out, shown.err, as_json, page):
        # Controls, formats, and what breaks lines; the document's own are new lines alone.
        odd = {c for c in text if unicodedata.category(c)[0] in "CZ"} - set("\n \u202f")
        assert not odd
    assert not tags_of(page) & {"img", "script", "iframe", "object", "link", "base", "form"}
    for path in out.glob("*.toml"):
        assert set(toml.loads(path.read_text())) <= {"tier", "tunables"}
    assert {path.parent for path in tmp_path.rglob("*.toml")} == {out}
    gauges = list(text_string_to_metric_families((tmp_path / "fleet.prom").read_text()))
    counted = next(one for one in gauges if one.name == "zmeld_fleet_machines")
    assert len(counted.samples) == len(NASTY)


def test_names_of_configurations_stay_short_and_differ(tmp_path):
    sound(tmp_path)
    report = reporting.make(str(tmp_path))
    kind = report.kinds[0]
    names = ["\u4e2d" * (at + 1) for at in range(300)] + ["kind--2", "kind--3"]
    report.kinds = [dataclasses.replace(kind, name=name) for name in names]
    written = reporting.write_configurations(report, tmp_path / "out")
    assert len(set(written)) == len(list((tmp_path / "out").iterdir())) == len(names)


def test_standard_error_is_not_flooded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli, "LEFT_OUT_TOLD", 2)
    for path in sound(tmp_path, 5)[:4]:
        path.write_bytes(b"x")
    assert cli.main(["report", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert err.count("damaged") == 2
    assert "2 more are named" in err and "4 left out" in err


def said_in(path, of, /, **values):
    """Says something else in a file's rows of one record."""

    def change(table):
        own = [one == of for one in table["record"].to_pylist()]
        for name, value in values.items():
            at = table.column_names.index(name)
            kind = schema.COLUMNS[name]
            other = pa.chunked_array([pa.repeat(pa.scalar(value, kind), len(table))])
            table = table.set_column(at, name, pc.if_else(pa.array(own), other, table[name]))
        return table

    changed(path, change)


def test_metadata_that_an_engine_acts_on_ends_no_report(tmp_path):
    """DuckDB takes `geo` for GeoParquet, and refuses all files where it makes no sense."""
    changed(sound(tmp_path)[0], lambda table: table, metadata={"geo": "{}"})
    assert reporting.make(str(tmp_path)).machines == 3


@pytest.mark.parametrize(
    "said",
    [
        {"bytes_zstd": 2**40},
        {"squares_lz4": 2**47},
        {"count": 2**30},
        {"count": None},
        {"object_class": None},
        {"bytes_zword": None},
        {"bytes_zstd": 0},
    ],
)
def test_classes_of_sizes_take_no_more_than_their_pages(tmp_path, said):
    """One such row would take all pools with melding for nothing."""
    paths = [
        write(tmp_path, Machine(f"m{at}", [Owner("x", program(f"p{at}", 1500))]))
        for at in range(3)
    ]
    assert look(tmp_path).left_out == []
    said_in(paths[0], "size", **said)
    found = look(tmp_path)
    assert [reason for reason, _ in left(found)] == ["values"]


def listing_often(table):
    return pa.concat_tables([table] + [table.filter(pc.equal(table["record"], "content"))] * 29)


def listing_under_names(table):
    """In owners that there are not."""
    contents = table.filter(pc.equal(table["record"], "content"))
    at = table.column_names.index("owner")
    other = pa.repeat(pa.scalar("other.service"), len(contents))
    return pa.concat_tables([table, contents.set_column(at, "owner", other)])


@pytest.mark.parametrize("listed", [listing_often, listing_under_names])
def test_a_content_that_an_owner_lists_very_often_is_there_once(tmp_path, listed):
    """It would be taken off as if all owners of the fleet held it."""
    reports = []
    for change in (lambda table: table, listed):
        place = tmp_path / change.__name__
        for at in range(12):
            names = (f"{name}{at}" for name in ("a", "b", "c"))
            owners = [Owner(name[0], program(name, 300, 50)) for name in names]
            write(place, Machine(f"m{at}", owners))
        whose = Machine("bad", [Owner("a", program("bad", 800))], survey="ab" * 16)
        table = change(table_of(whose))
        rows = np.zeros(len(table), dtype=np.int64) + len(table)
        is_machine = pc.equal(table["record"], "machine")
        said = pc.if_else(is_machine, pa.array(rows), pa.nulls(len(table), pa.int64()))
        write(place, whose, table.set_column(table.column_names.index("rows"), "rows", said))
        reports.append(reporting.make(str(place)))
    fleet, other = reports
    assert (other.machines, other.left_out) == (13, [])
    for one, two in zip(fleet.fleet.setups, other.fleet.setups, strict=True):
        assert two.takes.value == pytest.approx(one.takes.value, rel=0.01)


def unpacking(path, rows, kinds):
    """A few bytes that are very many rows."""
    columns = {name: pa.nulls(rows, kind) for name, kind in kinds.items()}
    pq.write_table(pa.table(columns), path, compression="zstd")


POOLS: list[pa.MemoryPool] = []
"""They have to outlive what is in them."""


@contextmanager
def in_little_memory():
    POOLS.append(counting := pa.proxy_memory_pool(real := pa.default_memory_pool()))
    pa.set_memory_pool(counting)
    try:
        yield
    finally:
        pa.set_memory_pool(real)
    assert counting.max_memory() < 200 << 20


def saying(name, length, rows, left_out=()):
    """One text, in very many rows: in the file it is there once."""

    def harm(path):
        table = table_of(plain("x")).slice(1, 1).drop_columns(left_out)
        table = pa.concat_tables([table] * rows).combine_chunks()
        text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * length])
        table = table.set_column(table.column_names.index(name), name, text)
        pq.write_table(table, path, compression="zstd", use_dictionary=True, store_schema=False)
        assert path.stat().st_size < 200_000

    return harm


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (saying("host", 1 << 20, 300), "values"),
        (saying("host", 8000, 90_000), "rows"),
        (saying("schema", 1 << 20, 300, ["theta"]), "values"),
        (saying("schema", 8000, 90_000, ["theta"]), "rows"),
        (lambda path: unpacking(path, 20_000_000, {"a": pa.int8()}), "rows"),
        (lambda path: unpacking(path, 300_000, schema.COLUMNS), "rows"),
        (lambda path: said_in(path, "machine", host="x" * 10_000), "values"),
        (lambda path: said_in(path, "content", owner="x" * 10_000), "values"),
    ],
)
def test_what_unpacks_to_very_much_is_left_out(tmp_path, harm, reason):
    harm(sound(tmp_path)[0])
    with in_little_memory():
        files, _ = places.open_place(str(tmp_path)).listed()
        found = list(catalogue.look(files, unite.CONTENT))
    assert [one.reason.value for one in found if isinstance(one, catalogue.LeftOut)] == [reason]


def test_files_of_the_past_and_of_no_day_end_no_report(tmp_path, capsys):
    old = write(tmp_path, plain("gone", time=NOON - timedelta(days=40)))
    changed(old, lambda t: t.set_column(4, "time", t["time"].cast(pa.timestamp("us"))))
    spoilt = write(tmp_path, plain("gone", time=NOON - timedelta(days=41)))
    changed(spoilt, put("time", None))
    moved = write(tmp_path, plain("moved"))
    (moved.parent.parent / "date=2020-99-99").mkdir()
    moved.rename(moved.parent.parent / "date=2020-99-99" / moved.name)
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "unexpected" not in (err := capsys.readouterr().err) and ": name: " in err
    sound(tmp_path)
    found = look(tmp_path)
    assert (len(found.surveys), found.silent) == (3, [])
    assert [reason for reason, _ in left(found)] == ["name", "columns"]


def of_many_machines(table):
    table = pa.concat_tables([table.slice(0, 1)] * 50_000)
    for name in ("machine", "survey"):
        ids = pa.array([f"{at:032x}" for at in range(len(table))])
        table = table.set_column(table.column_names.index(name), name, ids)
    return table


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda path: changed(path, put("schema", "zmeld.survey/3")), "version"),
        (lambda path: changed(path, put("machine", "m0")), "values"),
        (lambda path: changed(path, of_many_machines), "rows"),
        (saying("host", 1 << 20, 300), "values"),
        (lambda path: path.write_bytes(b"PAR1"), "damaged"),
    ],
)
def test_a_file_of_the_past_that_cannot_be_true_makes_nobody_silent(tmp_path, harm, reason):
    """One of 155 KB made 50,000 machines silent, and was not named."""
    sound(tmp_path)
    harm(write(tmp_path, plain("gone", time=NOON - timedelta(days=40))))
    with in_little_memory():
        found = look(tmp_path)
    assert ([said for said, _ in left(found)], found.silent) == ([reason], [])


@pytest.mark.parametrize("facts", [{"ram_bytes": 0}, {"ram_bytes": None}, {"ram_bytes": 1 << 52}])
def test_a_machine_that_says_nothing_true_of_its_ram_ends_no_report(tmp_path, facts):
    locked = {"pages_locked": 2**40, "idle_10m": 2**40}
    owners = [Owner("x", program("x", 9000), facts=locked), Owner("y", program("y", 9000))]
    write(tmp_path, Machine("m", owners, {}, facts))
    write(tmp_path, Machine("none", []))
    place, page = str(tmp_path), str(tmp_path / "page.html")
    assert cli.main(["report", place, "--html", page, "--json"]) == 0
