# SPDX-License-Identifier: GPL-2.0-or-later
"""Surveys by a machine that writes whatever it wants: the others' still count."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import threading
import unicodedata

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from made import (
    GIB,
    Machine,
    Owner,
    changed,
    footer_of,
    left,
    look,
    of_rows,
    owner_row,
    plain,
    program,
    read_rows,
    sound,
    spoil,
    table_of,
    tags_of,
    varint,
    write,
)
from zmeld_fleet import (
    catalogue,
    cli,
    engines,
    expressions,
    metrics,
    places,
    reporting,
    schema,
)
from zmeld_fleet.analysis import Standout
from zmeld_fleet.estimate import exact
from zmeld_fleet.validity import FLEET_RAM_MAX, RAM_MAX

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
    assert cli.main([*arguments, "--parquet", str(out)]) == 0
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


def test_more_contents_than_a_files_bytes_can_say_are_not_read(tmp_path):
    sound(tmp_path)
    bad = plain("bad")
    table = table_of(bad)
    many = table.slice(len(table) - 1).take(pa.array([0] * 3_000_000))
    facts = table.slice(0, 2).to_pylist()
    facts[0]["rows"] = len(facts) + len(many)
    path = write(tmp_path, bad)
    path.unlink()
    with pq.ParquetWriter(path, schema.ARROW, compression="zstd") as writer:
        writer.write_table(pa.Table.from_pylist(facts, schema=schema.ARROW))
        writer.write_table(many, row_group_size=1_000_000)
    assert path.stat().st_size < 1_000_000
    found = look(tmp_path)
    ((reason, why),) = left(found)
    assert reason == "values" and "bytes can say" in why
    assert len(found.surveys) == 3


def very_many_machines(rows):
    row = rows[0] | {"rows": 1}
    return [row | {"survey": f"{at:032x}", "machine": f"{at:032x}"} for at in range(6000)]


def very_many_owners(rows):
    owners = (rows[1] | {"owner": f"o{at}-{os.urandom(24).hex()}"} for at in range(1100))
    return [rows[0], *owners]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (very_many_machines, "bytes can say"),
        (very_many_owners, "more than 1024 owners"),
        (lambda rows: rows[:1] * 2, "two rows"),
    ],
)
def test_rows_that_are_too_many_are_left_out(tmp_path, change, said):
    sound(tmp_path)
    bad = plain("bad")
    path = of_rows(tmp_path, bad, change(table_of(bad).to_pylist()))
    pq.write_table(read_rows(path), path, compression="zstd", row_group_size=1000)
    found = look(tmp_path)
    ((reason, why),) = left(found)
    assert reason == "values" and said in why
    assert len(found.surveys) == 3


def huge(name, wide=False):
    """As large as can be, and where `wide` with intervals as wide as its pages are many."""
    owners = [Owner(f"{at}/huge.service", program("huge", 40)) for at in range(4)]
    whose = Machine(name, owners, {}, {"ram_bytes": RAM_MAX})
    rows = table_of(whose).to_pylist()
    pages = RAM_MAX // 4096
    takes = float(4 * pages * 4096)
    said = {"pages": pages}
    for codec in schema.CODECS:
        for what in ("pool", "melded"):
            said |= dict.fromkeys((f"{what}_{codec}{end}" for end in ("", "_low", "_high")), takes)
        if wide:
            said |= {f"pool_{codec}_low": 0.0}
    return whose, [row | said if row["record"] == "owner" else row for row in rows]


def test_intervals_that_leave_64_bits_are_left_out_and_end_no_report(tmp_path):
    sound(tmp_path)
    of_rows(tmp_path, *huge("bad", wide=True))
    report = reporting.make(str(tmp_path))
    assert [(one.reason.value, "too wide" in one.why) for one in report.left_out] == [
        ("values", True)
    ]
    assert report.machines == 3


def test_sums_of_all_machines_stay_within_64_bits(tmp_path):
    """So many of the largest that a service's sum over machines would be more than that."""
    sound(tmp_path)
    most = FLEET_RAM_MAX // RAM_MAX
    for at in range(2 * most):
        of_rows(tmp_path, *huge(f"bad{at}"))
    report = reporting.make(str(tmp_path))
    whys = [one.why for one in report.left_out]
    assert report.machines == 3 + most - 1
    assert len(whys) == most + 1
    assert all("256 PiB" in why for why in whys)


def lying(path):
    """Its contents are of a class that there is not, and its footer says that they do not."""
    rows = read_rows(path, partitioning=None).to_pylist()
    for row in rows:
        if row["record"] == "content":
            row["object_class"] = 2**31 - 1
    path.unlink()
    with pq.ParquetWriter(path, schema.ARROW) as writer:
        table = pa.Table.from_pylist(rows, schema=schema.ARROW)
        writer.write_table(table.slice(0, 2))
        writer.write_table(table.slice(2))
    data = bytearray(path.read_bytes())
    footer = footer_of(path)
    real, said = (2**31 - 1).to_bytes(4, "little"), (7).to_bytes(4, "little")
    assert real in data[footer:]
    data[footer:] = data[footer:].replace(real, said)
    path.write_bytes(data)


def broken(path):
    """In its middle, where nothing but reading it finds that."""
    contents = pq.ParquetFile(path).metadata.row_group(1)
    names = [contents.column(at).path_in_schema for at in range(contents.num_columns)]
    spoil(path, contents.column(names.index("hash_high")).data_page_offset, 60)


def without_a_name(path):
    """A file with one column more."""
    changed(path, lambda t: t.append_column("", pa.array([1] * len(t))))


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lying, "values"),
        (broken, "digest"),
        (lambda path: said_in(path, "owner", record="other"), "unknown record: other"),
        (without_a_name, "columns"),
    ],
)
def test_a_file_that_lies_or_breaks_is_left_out_and_the_others_count(tmp_path, harm, reason):
    harm(sound(tmp_path, 4)[0])
    found = look(tmp_path)
    ((name, why),) = left(found)
    assert reason in f"{name}: {why}" and len(found.surveys) == 3


def test_folders_of_other_names_are_not_entered(tmp_path):
    path = sound(tmp_path)[0]
    (path.parent / "loop").symlink_to(path.parent.parent)
    (path.parent.parent / "else").mkdir()
    (path.parent.parent / "date=9999-99-99").mkdir()
    (path.parent.parent / "date=9999-99-99" / path.name).write_bytes(path.read_bytes())
    path.unlink()
    found = look(tmp_path)
    assert [reason for reason, _ in left(found)] == ["clock"] and len(found.surveys) == 2


def test_names_of_configurations_stay_short_and_differ(tmp_path):
    sound(tmp_path)
    report = reporting.make(str(tmp_path))
    kind = report.kinds[0]
    names = ["\u4e2d" * (at + 1) for at in range(300)] + ["kind--2", "kind--3"]
    report.kinds = [dataclasses.replace(kind, name=name) for name in names]
    written = reporting.write_configurations(report, tmp_path / "out")
    assert len(set(written)) == len(list((tmp_path / "out").iterdir())) == len(names)


def test_machines_that_stand_out_do_not_flood_prometheus(tmp_path):
    sound(tmp_path)
    report = reporting.make(str(tmp_path))
    name = report.kinds[0].name
    most = metrics.STANDOUTS_MAX
    report.standouts = [
        Standout(f"{at:032x}", "h", name, "zero pages", exact(1.0), 0.0, 1e4 - at)
        for at in range(most + 100)
    ]
    lines = [one for one in metrics.render(report).splitlines() if "_standout_dev" in one]
    assert len([one for one in lines if not one.startswith("#")]) == most
    assert any(f'machine="{0:032x}"' in one for one in lines)


def test_standard_error_is_not_flooded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli, "LEFT_OUT_TOLD", 2)
    for path in sound(tmp_path, 5)[:4]:
        path.write_bytes(b"x")
    assert cli.main(["report", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert err.count("truncated") == 2
    assert "2 more are named" in err and "4 left out" in err


def test_owners_that_are_many_and_small_count(tmp_path):
    """What the bounds are not for: an ordinary machine with as many owners as there can be."""
    owners = [Owner(f"s{at}.service", program(f"s{at}", 30)) for at in range(64)]
    write(tmp_path, Machine("many", owners, {f"l{at}": "x" for at in range(64)}))
    empty = Machine("empty", [], {}, {"ram_bytes": GIB})
    write(tmp_path, empty)
    assert look(tmp_path).left_out == []
    assert owner_row(owners[0], *owners[0].sketch(1024))["pages"] == 30


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


def test_what_arrow_reads_and_duckdb_does_not_is_damaged(tmp_path):
    path, *_ = sound(tmp_path)
    settings = {"use_dictionary": False, "column_encoding": {"extra": "BYTE_STREAM_SPLIT"}}
    extra = pa.scalar(b"abc", pa.binary(3))
    changed(path, lambda t: t.append_column("extra", pa.repeat(extra, len(t))), **settings)
    found = look(tmp_path)
    assert left(found) == [] and len(read_rows(path)) > 0
    assert reporting.drop_damaged(found)
    ((reason, why),) = left(found)
    assert reason == "damaged" and "BYTE_STREAM_SPLIT" in why


def test_holes_do_not_make_a_file_larger(tmp_path):
    path = sound(tmp_path)[0]
    data = path.read_bytes()
    with open(path, "r+b") as file:
        file.truncate(1 << 40)
        file.seek((1 << 40) - 4)
        file.write(b"PAR1")
    assert path.stat().st_blocks * 512 < 1 << 20
    ((reason, why),) = left(look(tmp_path))
    assert reason == "values" and "on the disk" in why
    path.write_bytes(data)
    assert look(tmp_path).left_out == []


def test_texts_that_stand_in_many_rows_are_handed_over_once(tmp_path):
    bad = plain("bad")
    row = table_of(bad).slice(0, 1).to_pylist()[0] | {"rows": 65, "host": "h" * 4000}
    rows = []
    for at in range(200):
        own = {"survey": f"{at:032x}", "machine": f"{at:032x}"}
        rows.append(row | own)
        common = {"schema": schema.SCHEMA, "time": bad.time, "record": "label"}
        label = common | own | {"label_value": "v" * 4000}
        rows += [label | {"label_name": f"{name}" * 100} for name in range(64)]
    path = write(tmp_path, bad)
    table = pa.Table.from_pylist(rows, schema=schema.ARROW)
    padding = pa.array([os.urandom(16).hex() for _ in range(len(table))])
    pq.write_table(table.append_column("padding", padding), path, compression="zstd")
    place = places.open_place(str(tmp_path))
    found = catalogue._look(place, place.listed()[0][0])
    assert len(found) == 200
    assert len(pickle.dumps(found)) < 8 * path.stat().st_size


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path):
    path = sound(tmp_path)[0]
    place = places.open_place(str(tmp_path))
    stored = place.listed()[0]
    path.unlink()
    os.mkfifo(path)
    flaws = []
    reader = threading.Thread(
        target=lambda: flaws.extend(catalogue.look(place, one) for one in stored), daemon=True
    )
    reader.start()
    reader.join(120.0)
    assert not reader.is_alive(), "it waits for what nobody writes"
    assert [one.reason.value for one in flaws if isinstance(one, catalogue.LeftOut)] == [
        "unreadable"
    ]
    assert look(tmp_path).files_seen == 2


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
        write(tmp_path, Machine(f"m{at}", [Owner("x", program(f"p{at}", 400, 100))]))
        for at in range(3)
    ]
    assert look(tmp_path).left_out == []
    said_in(paths[0], "size", **said)
    found = look(tmp_path)
    assert [reason for reason, _ in left(found)] == ["values"]


def saying_rows(path, rows):
    """Its footer says that the file has so many rows, and its row groups say the truth."""
    data, metadata = path.read_bytes(), pq.read_metadata(path)
    start = footer_of(path)

    def written(count):
        return b"\x16" + varint(count) + bytes([0x19, metadata.num_row_groups << 4 | 12])

    footer = data[start:-8].replace(written(metadata.num_rows), written(rows))
    path.write_bytes(data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert pq.read_metadata(path).num_rows == rows


def test_a_footer_that_lies_about_its_rows_is_not_believed(tmp_path):
    """Classes of sizes have no more contents than there are rows, which this would lift."""
    path, *_ = sound(tmp_path)
    said_in(path, "machine", rows=2**40)
    saying_rows(path, 2**40)
    assert [reason for reason, _ in left(look(tmp_path))] == ["rows"]


def resized(rows, change):
    """A survey's rows with other rows about classes of sizes."""
    sizes = change([row for row in rows if row["record"] == "size"])
    return [row for row in rows if row["record"] not in ("size", "content")] + [
        *sizes,
        *(row for row in rows if row["record"] == "content"),
    ]


def twice(sizes):
    return sizes * 2


def thrice_as_many(sizes):
    numbers = ("count", *schema.SIZE_COLUMNS)
    return [row | {name: row[name] * 3 for name in numbers} for row in sizes]


@pytest.mark.parametrize(("change", "said"), [(twice, "twice"), (thrice_as_many, "sketches")])
def test_classes_of_sizes_are_those_of_the_sketches(tmp_path, change, said):
    """A content that is listed often makes rows, which so do not bound what classes may say."""
    sound(tmp_path)
    whose = Machine("bad", [Owner("x", program("x", 1024))], facts={"sketch_size": 2048})
    of_rows(tmp_path, whose, listing_often(resized(table_of(whose).to_pylist(), change)))
    ((reason, why),) = left(look(tmp_path))
    assert reason == "values" and said in why


def test_large_pages_that_do_not_compress_count(tmp_path):
    """Their sums of squares are large where pages have 64 KiB."""
    page = 65_536
    for at in range(2):
        owners = [Owner("x", program(f"p{at}", 300))]
        facts = {"page_size": page, "ram_bytes": RAM_MAX, "sketch_size": 1 << 20}
        whose = Machine(f"m{at}", owners, facts=facts)
        count = 70_000
        said = {"count": count, "object_class": 7}
        said |= {f"bytes_{codec}": count * page for codec in schema.CODECS}
        said |= {f"squares_{codec}": count * page**2 for codec in schema.CODECS}
        rows = resized(table_of(whose).to_pylist(), lambda sizes, said=said: [sizes[0] | said])
        of_rows(tmp_path, whose, rows + rows[-1:] * count)
    report = reporting.make(str(tmp_path))
    assert (report.machines, report.left_out) == (2, [])


def test_sums_over_sizes_have_more_than_64_bits():
    """Engines add up as wide as a column is, and some say nothing where that is too narrow."""
    numbers = ("count", *schema.SIZE_COLUMNS)
    rows = [{"record": "size", "survey": "x", "object_class": 7} | dict.fromkeys(numbers, 2**60)]
    engine = engines.Engine()
    try:
        table = engine.keep(pa.Table.from_pylist(rows * 16, schema=schema.ARROW))
        asked = engine.keep(pa.table({"survey": ["x"]}))
        sums = expressions.class_sizes(table, asked)
        (row,) = engine.ask(sums)
        assert all(row[name] == 2**64 for name in numbers)
        assert all(sums.schema()[name].is_decimal() for name in numbers)
    finally:
        engine.close()


def listing_often(rows):
    return rows + [row for row in rows if row["record"] == "content"] * 29


def listing_under_names(rows):
    """In owners that there are not, and in none."""
    contents = [row for row in rows if row["record"] == "content"]
    names = [None, *(f"{at}.service" for at in range(28))]
    return rows + [row | {"owner": name} for row in contents for name in names]


def listing_in_classes(rows):
    contents = [row for row in rows if row["record"] == "content"]
    return rows + [row | {"object_class": at} for row in contents for at in range(8)] * 4


@pytest.mark.parametrize("listed", [listing_often, listing_under_names, listing_in_classes])
def test_a_content_that_an_owner_lists_very_often_is_there_once(tmp_path, listed):
    """It would be taken off as if all owners of the fleet held it."""
    reports = []
    for change in (list, listed):
        place = tmp_path / change.__name__
        for at in range(12):
            names = (f"{name}{at}" for name in ("a", "b", "c"))
            owners = [Owner(name[0], program(name, 300, 50)) for name in names]
            write(place, Machine(f"m{at}", owners))
        whose = Machine("bad", [Owner("a", program("bad", 800))], survey="ab" * 16)
        of_rows(place, whose, change(table_of(whose).to_pylist()))
        reports.append((reporting.make(str(place)), reporting.make_affinity(str(place))))
    (fleet, pairs), (other, other_pairs) = reports
    assert (other.machines, other.left_out) == (13, [])
    for one, two in zip(fleet.fleet.setups, other.fleet.setups, strict=True):
        assert abs(one.takes.value - two.takes.value) <= 0.01 * one.takes.value
    assert pairs.pairs == other_pairs.pairs
