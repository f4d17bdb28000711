# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad input is named, left out, counted; half a file is never read."""

from __future__ import annotations

import errno
import json
import os
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from made import (
    NOON,
    changed,
    footer_of,
    look,
    plain,
    put,
    reasons,
    sound,
    spoil,
    table_of,
    write,
)
from zmeld_fleet import cli, reporting, schema


def test_files_on_their_way_are_not_even_seen(tmp_path):
    path = sound(tmp_path)[0]
    whole = path.read_bytes()
    (path.parent / f".{path.name}.part-1234").write_bytes(whole[: len(whole) // 2])
    (path.parent / f".{path.name}").write_bytes(whole)
    (path.parent / f"{path.name}.part-12").write_bytes(whole)
    hidden = path.parent.parent / ".trash" / "x.parquet"
    hidden.parent.mkdir()
    hidden.write_bytes(whole)
    found = look(tmp_path)
    assert (found.files_seen, found.left_out) == (3, [])


@pytest.mark.parametrize("keep", [0, 3, 11, 200, -1, -4, -200])
def test_a_truncated_file_is_left_out(tmp_path, keep):
    path = sound(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:keep])
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["damaged"], 2)


def dropping(name):
    return lambda table: table.drop_columns([name])


def cast(name, kind):
    def change(table):
        at = table.column_names.index(name)
        return table.set_column(at, name, table[name].cast(kind, safe=False))

    return change


def later_without_theta(table):
    return dropping("theta")(put("schema", "zmeld.survey/3")(table))


def renamed(record, other):
    def change(table):
        names = table["record"].to_pylist()
        named = pa.array([other if name == record else name for name in names])
        return table.set_column(table.column_names.index("record"), "record", named)

    return change


def taken_for_another(name):
    return lambda table: table.add_column(0, name, pa.array([2**62] * len(table)))


@pytest.mark.parametrize(
    ("reason", "said", "change"),
    [
        ("version", "zmeld.survey/3", put("schema", "zmeld.survey/3")),
        ("version", "zmeld.survey/3", later_without_theta),
        ("version", "its schema is 2", put("schema", 2)),
        ("columns", "no column", lambda _: pa.table({"a": [1, 2, 3]})),
        ("columns", "theta", dropping("theta")),
        ("columns", "theta", cast("theta", pa.float64())),
        ("columns", "time", cast("time", pa.timestamp("us"))),
        *(
            ("columns", name, taken_for_another(name))
            for name in ("PAGES", "Theta", "HASH_HIGH", "")
        ),
        ("rows", "it says", lambda table: table.slice(0, len(table) - 1)),
        ("values", "machine", lambda table: table.slice(1)),
        ("values", "two rows", lambda table: pa.concat_tables([table.slice(0, 1), table])),
        ("values", "unknown record: other", renamed("owner", "other")),
        ("damaged", "", None),
    ],
)
def test_a_file_that_is_no_survey_is_left_out(tmp_path, reason, said, change):
    path = sound(tmp_path)[0]
    if change is None:
        spoil(path, footer_of(path))
    else:
        changed(path, change)
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == ([reason], 2)
    assert said in found.left_out[0].why
    assert reporting.make(str(tmp_path)).fleet.pages == 2 * 70


@pytest.mark.parametrize(
    ("reason", "said", "more"),
    [
        ("values", "key_id is NULL", {"facts": {"key_id": None}}),
        ("page-size", "16384", {"facts": {"page_size": 16384}}),
        ("interrupted", "stopped", {"facts": {"interrupted": True}}),
        ("selection", "--pid 7", {"facts": {"selection": "--pid 7"}}),
    ],
)
def test_a_survey_that_says_what_keeps_it_out_is_left_out(tmp_path, reason, said, more):
    sound(tmp_path)
    write(tmp_path, plain("other", **more))
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == ([reason], 3)
    assert said in found.left_out[0].why


def test_what_is_refused_is_unreadable_and_the_rest_counts(tmp_path, monkeypatch):
    refused, *_ = sound(tmp_path)
    closed = write(tmp_path, plain("closed", time=NOON + timedelta(days=1))).parent
    real_open, real_list = os.open, os.scandir

    def opened(path, *how, **more):
        if str(path) == str(refused):
            raise PermissionError(errno.EACCES, "no")
        return real_open(path, *how, **more)

    def listed(path):
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_list(path)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "scandir", listed)
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["unreadable"] * 2, 2)
    said = " ".join(one.why for one in found.left_out)
    assert "Permission denied; root or its owner may" in said and "cannot be listed" in said


def test_a_label_that_a_survey_has_twice_is_told(tmp_path):
    sound(tmp_path)
    both = plain("both", labels={"role": "web", "role2": "db"})
    rows = table_of(both).to_pylist()
    for row in rows:
        row["label_name"] = row["label_name"] and "role"
    write(tmp_path, both, pa.Table.from_pylist(rows, schema=schema.ARROW))
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["values"], 3)
    assert "label role" in found.left_out[0].why


def test_new_columns_are_passed_over(tmp_path):
    path = sound(tmp_path)[0]
    changed(path, lambda t: t.append_column("new", pa.array([1] * len(t))))
    found = look(tmp_path)
    assert (found.left_out, len(found.surveys)) == ([], 3)
    assert reporting.make(str(tmp_path)).machines == 3


def test_the_key_of_most_counts_or_the_one_asked_for(tmp_path):
    sound(tmp_path)
    write(tmp_path, plain("other", facts={"key_id": "feedfeedfeedfeed"}))
    found = look(tmp_path)
    assert (reasons(found), found.key_id) == (["key"], "0123456789abcdef")
    found = look(tmp_path, key_id="feedfeedfeedfeed")
    assert (reasons(found), len(found.surveys)) == (["key"] * 3, 1)


@pytest.mark.parametrize("hours", [2, 24])
def test_of_a_machine_that_surveyed_twice_the_latest_counts(tmp_path, hours):
    uptime = {"uptime_seconds": 3600.0 * (hours + 1)}
    later = plain("sound0", time=NOON + timedelta(hours=hours), facts=uptime)
    write(tmp_path, later)
    sound(tmp_path)
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["superseded"], 3)
    assert later.survey in [survey.survey for survey in found.surveys]


def test_the_same_survey_counts_once(tmp_path):
    path = sound(tmp_path)[0]
    copy = path.with_name("zz-copy.parquet")
    copy.write_bytes(path.read_bytes())
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["twice"], 3)
    assert found.left_out[0].file == str(copy)


def test_clocks_that_differ_are_left_out(tmp_path):
    sound(tmp_path)
    soon = NOON + timedelta(days=2)
    write(tmp_path, plain("ahead", time=soon))
    moved = write(tmp_path, plain("moved"))
    other = moved.parent.parent / "date=2026-03-15"
    other.mkdir(exist_ok=True)
    moved.rename(other / moved.name)
    write(tmp_path, plain("unborn", facts={"uptime_seconds": -5.0}))
    written = write(tmp_path, plain("before", time=NOON + timedelta(hours=3)))
    past = (NOON + timedelta(hours=1)).timestamp()
    os.utime(written, (past, past))
    found = look(tmp_path)
    assert reasons(found) == ["clock"] * 4
    whys = "\n".join(left.why for left in found.left_out)
    for said in ("yet to come", "date=2026-03-15", "not started yet", "the file was written"):
        assert said in whys


VALUES = {
    "ram_bytes": -1,
    "page_size": 0,
    "uptime_seconds": float("nan"),
    "theta": schema.HASH_MIN + 1000,
    "pages": 2**63 - 1,
    "pages_zero": 10**6,
    "pages_distinct": float("inf"),
    "pages_distinct_low": None,
    "pool_zstd": 1e300,
    "pool_zstd_high": 1e17,
    "time": datetime(2301, 1, 1, tzinfo=timezone.utc),
}


@pytest.mark.parametrize("name", VALUES)
def test_what_cannot_be_true_is_left_out(tmp_path, name):
    sound(tmp_path)
    bad = plain("bad", labels={"role": "web"})
    rows = table_of(bad).to_pylist()
    ordered = rows if name == "time" else reversed(rows)
    row = next(row for row in ordered if row[name] is not None)
    row[name] = VALUES[name]
    write(tmp_path, bad, pa.Table.from_pylist(rows, schema=schema.ARROW))
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["values"], 3)


def test_an_error_that_nobody_foresaw_is_one_line(tmp_path, monkeypatch, capsys):
    sound(tmp_path)

    def broken(*_, **__):
        raise KeyError("what?")

    monkeypatch.setattr(reporting, "make", broken)
    assert cli.main(["report", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "KeyError" in err and cli.TRACE in err
    monkeypatch.setenv(cli.TRACE, "1")
    with pytest.raises(KeyError):
        cli.main(["report", str(tmp_path)])


def test_a_survey_by_an_ordinary_user_never_supersedes_one_of_the_whole(tmp_path):
    sound(tmp_path)
    facts = {"uptime_seconds": 7200.0, "processes_refused": 17}
    later = plain("sound0", time=NOON + timedelta(hours=1), facts=facts)
    later.owners[0].facts["pages_skipped"] = 7000
    write(tmp_path, later)
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["partial"], 3)
    assert later.survey not in [survey.survey for survey in found.surveys]


def test_a_far_smaller_sketch_does_not_bound_all(tmp_path):
    sound(tmp_path)
    write(tmp_path, plain("small", k=64))
    write(tmp_path, plain("half", k=512))
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["sketch"], 4)


def test_two_hosts_with_one_id_are_called_so(tmp_path):
    write(tmp_path, plain("a", facts={"host": "first"}))
    later = {"host": "second", "uptime_seconds": 7200.0}
    write(tmp_path, plain("a", time=NOON + timedelta(hours=1), facts=later))
    found = look(tmp_path)
    assert (reasons(found), len(found.surveys)) == (["same-id"], 1)
    assert "first and second" in found.left_out[0].why


@pytest.mark.parametrize("name", ["*.parquet", "a[1].parquet", "{a,b}.parquet", "a b.parquet"])
def test_a_name_is_no_pattern(tmp_path, name):
    paths = sound(tmp_path)
    paths[0].rename(paths[0].with_name(name))
    report = reporting.make(str(tmp_path))
    assert [left.reason.value for left in report.left_out] == ["name"]
    assert report.fleet.pages == 2 * 70


def test_a_folder_whose_name_looks_like_a_pattern_is_read(tmp_path):
    for at, name in enumerate(("a[1]*", "a1x")):
        write(tmp_path / name, plain(f"host{at}"))
    odd = tmp_path / "a[1]*" / schema.FOLDER / "date=*"
    odd.mkdir()
    (odd / "x.parquet").write_bytes(b"PAR1")
    report = reporting.make(str(tmp_path / "a[1]*"))
    assert (report.machines, report.fleet.pages) == (1, 70)
    assert [one.reason.value for one in report.left_out] == ["name"]


def test_all_of_it_is_named_on_standard_error_in_json_and_by_the_exit_code(tmp_path, capsys):
    path = sound(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-9])
    assert cli.main(["report", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["left_out"][0]["reason"] == "damaged"
    assert path.name in err and "1 left out" in err
    assert cli.main(["report", str(tmp_path), "--require-all"]) == 1
    for one in tmp_path.rglob("*.parquet"):
        one.unlink()
    assert cli.main(["report", str(tmp_path)]) == 2


@pytest.mark.parametrize("place", ["/nowhere/at/all", "ftp://host/x", "."])
def test_a_place_that_is_none_is_one_line(tmp_path, monkeypatch, capsys, place):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", place]) == 2
    err = capsys.readouterr().err
    assert err.startswith("zmeld-fleet: ") and err.count("\n") == 1


def test_altered_bytes_are_found_and_told(tmp_path):
    """400 of them changed 51 hashes, and nothing was said."""
    paths = sound(tmp_path)
    data = bytearray(paths[0].read_bytes())
    contents = pq.ParquetFile(paths[0]).metadata.row_group(1)
    start = contents.column(0).data_page_offset
    end = start + sum(contents.column(at).total_compressed_size for at in range(5))
    for at in (4, start + 40, end - 1):
        flipped = bytearray(data)
        flipped[at] ^= 0x10
        paths[0].write_bytes(flipped)
        found = look(tmp_path)
        assert reasons(found) == ["digest"] and len(found.surveys) == 2, at
        assert paths[0].name in found.left_out[0].file
    paths[0].write_bytes(data)
    assert look(tmp_path).left_out == []


def test_days_that_are_not_asked_for_are_not_opened(tmp_path, capsys):
    day = timedelta(days=1)
    for at in range(4):
        uptime = {"uptime_seconds": 864000.0 - at * 86400}
        write(tmp_path, plain("host", facts=uptime, time=NOON + day - at * day))
    (path,) = (tmp_path / schema.FOLDER / f"date={NOON - 2 * day:%Y-%m-%d}").iterdir()
    path.write_bytes(b"PAR1")
    found = look(tmp_path, days=2)
    assert (found.files_seen, len(found.surveys), found.left_out) == (1, 1, [])
    assert look(tmp_path).files_seen == 2 and reasons(look(tmp_path, days=99)) == [
        "damaged",
        "superseded",
        "superseded",
    ]
    # Nothing of the last days: the way out is said.
    for old in (tmp_path / schema.FOLDER).glob("date=2026-03-1[45]"):
        for file in old.iterdir():
            file.unlink()
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "the newest is of 2026-03-13" in (err := capsys.readouterr().err) and "4d" in err


def test_a_secret_in_a_url_is_not_shown(capsys):
    for command in ("report", "unite"):
        assert cli.main([command, "s3://KEY:se/cret@host/p?region=x&y=a@b"]) == 2
        err = capsys.readouterr().err
        assert err.startswith("zmeld-fleet: s3://...: ") and err.count("\n") == 1


def test_since_is_days(tmp_path, capsys):
    for wrong in ("30", "0d", "1h", "-1d", "d"):
        with pytest.raises(SystemExit) as ended:
            cli.main(["report", str(tmp_path), f"--since={wrong}"])
        assert ended.value.code == 2
        assert "write days, as in 30d" in capsys.readouterr().err
