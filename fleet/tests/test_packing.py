# SPDX-License-Identifier: GPL-2.0-or-later
"""Packing changes nothing of what is said, and loses nothing when it is killed."""

from __future__ import annotations

import os
from datetime import timedelta

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from made import NOON, Machine, Owner, program, read_rows, write
from zmeld_fleet import cli, packing, places, reporting, results


def fill(place, machines=6, days=2):
    for day in range(days):
        for at in range(machines):
            owners = [Owner("nginx", program("nginx", 3000, 200)), Owner("o", program(at, 900))]
            facts = {"uptime_seconds": 86400.0 * (day + 1)}
            time = NOON + timedelta(days=day)
            write(place, Machine(f"host{at}", owners, {"role": "web"}, facts, time))


def said(place):
    report = reporting.make(str(place), by="role")
    plain = results.plain(report)
    for key in ("place", "files_seen", "surveys_seen", "left_out"):
        del plain[key]
    return plain, report


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "place"
    fill(place)
    return place


def test_a_packed_place_says_the_same(place, capsys):
    before, _ = said(place)
    assert cli.main(["pack", str(place)]) == 0
    after, report = said(place)
    assert after == before
    assert (report.files_seen, report.left_out) == (2, [])
    assert "12 files" in capsys.readouterr().out


def test_contents_are_sorted_and_facts_stand_first(place, monkeypatch):
    monkeypatch.setattr(packing, "GROUP_ROWS", 500)
    before, _ = said(place)
    packed, left = packing.pack(places.open_place(str(place)))
    assert left == [] and len(packed) == 2
    assert said(place)[0] == before
    for one in packed:
        table = read_rows(one.path, partitioning=None)
        records = table["record"].to_pylist()
        order = ["machine", "label", "owner", "size", "content"]
        assert records == sorted(records, key=order.index)
        contents = table.filter(pc.equal(table["record"], "content"))
        pairs = list(
            zip(contents["hash_high"].to_pylist(), contents["hash_low"].to_pylist(), strict=True)
        )
        assert pairs == sorted(pairs) and len(pairs) > 5000
        file = pq.ParquetFile(one.path)
        at = file.schema_arrow.get_field_index("hash_high")
        ends = [
            file.metadata.row_group(group).column(at).statistics.max
            for group in range(4, file.num_row_groups)
        ]
        assert len(ends) > 5 and ends == sorted(ends)


def test_packing_again_takes_the_pack_in(place):
    before, _ = said(place)
    packing.pack(places.open_place(str(place)))
    assert packing.pack(places.open_place(str(place)))[0] == []
    time = NOON + timedelta(hours=1)
    write(place, Machine("new", [Owner("o", program("new", 100))], {"role": "web"}, time=time))
    packed, _ = packing.pack(places.open_place(str(place)))
    assert [(one.files, one.surveys) for one in packed] == [(2, 7)]
    assert len(list(place.rglob("*.parquet"))) == 2
    assert said(place)[0]["machines"] == before["machines"] + 1


@pytest.mark.parametrize("step", range(4))
def test_killed_at_any_step_it_loses_nothing(tmp_path, monkeypatch, step):
    """The process ends at the n-th call that changes the folder."""
    place = tmp_path / "place"
    fill(place, machines=3, days=1)
    before, _ = said(place)
    calls = {"left": step}

    class KilledError(BaseException):
        pass

    def dying(real):
        def call(*arguments, **named):
            if str(arguments[0]).startswith(str(place)):
                if calls["left"] == 0:
                    raise KilledError
                calls["left"] -= 1
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        # What a kill leaves is not tidied up either.
        patched.setattr(os, "rename", dying(os.rename))
        patched.setattr(os, "unlink", dying(os.unlink))
        with pytest.raises(KilledError):
            packing.pack(places.open_place(str(place)))
    after, report = said(place)
    assert after == before
    assert {left.reason.value for left in report.left_out} <= {"twice"}
    packing.pack(places.open_place(str(place)))
    final, report = said(place)
    assert final == before and report.left_out == []


def test_a_full_disk_leaves_the_originals(place, monkeypatch):
    before = sorted(place.rglob("*.parquet"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cli.main(["pack", str(place)]) == 2
    assert sorted(place.rglob("*.parquet")) == before
    assert not [path for path in place.rglob(".*") if path.name != "."]


def test_packs_that_overlap_count_each_survey_once(tmp_path):
    place = tmp_path / "place"
    fill(place, machines=5, days=1)
    before, _ = said(place)
    files = sorted(place.rglob("*.parquet"))
    kept = {path: path.read_bytes() for path in files}
    for part in (files[:3], files[1:]):
        for path in files:
            path.unlink(missing_ok=True)
        aside = [path.rename(tmp_path / path.name) for path in place.rglob("packed-*.parquet")]
        for path in part:
            path.write_bytes(kept[path])
        packing.pack(places.open_place(str(place)))
        for path in aside:
            path.rename(files[0].parent / path.name)
    after, report = said(place)
    assert report.files_seen == 2
    assert [left.reason.value for left in report.left_out] == ["twice", "twice"]
    assert after == before


def test_a_file_that_claims_another_survey_is_named_and_nothing_is_deleted(tmp_path, capsys):
    place = tmp_path / "place"
    fill(place, machines=3, days=1)
    paths = sorted(place.rglob("*.parquet"))
    claimed = read_rows(paths[0], partitioning=None)["survey"][0].as_py()
    evil = write(place, Machine("evil", [Owner("x", program("x", 9))], survey=claimed))
    evil = evil.rename(evil.with_name("0.parquet"))
    _, report = said(place)
    assert report.machines == 2
    assert [left.reason.value for left in report.left_out] == ["twice", "twice"]
    assert cli.main(["pack", str(place)]) == 0
    assert "other rows" in capsys.readouterr().err
    there = sorted(place.rglob("*.parquet"))
    assert {paths[0], evil} < set(there) and len(there) == 3


def test_links_are_not_followed_to_where_files_would_be_deleted(place, tmp_path, capsys):
    top = place / "zmeld-survey-2"
    day = next(top.iterdir())
    elsewhere = tmp_path / "elsewhere"
    day.rename(elsewhere)
    day.symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    assert cli.main(["pack", str(place)]) == 2
    assert "is a link" in capsys.readouterr().err
    assert sorted(elsewhere.iterdir()) == before


def test_of_two_packs_at_once_one_gives_way(place, monkeypatch):
    met = []

    def again(sources, target, real=packing.unite):
        with pytest.raises(places.PlaceError, match="another pack"):
            packing.pack(places.open_place(str(place)))
        met.append(target)
        return real(sources, target)

    monkeypatch.setattr(packing, "unite", again)
    packing.pack(places.open_place(str(place)))
    assert len(met) == 2 and len(list(place.rglob("*.parquet"))) == 2


def test_old_surveys_expire_and_nothing_else(tmp_path):
    day = timedelta(days=1)
    for at in (0, 89, 90, 200):
        machine = Machine("host", [Owner("own", program("own", 50))], time=NOON - at * day)
        path = write(tmp_path, machine)
    stranger = path.parent / "notes.txt"
    stranger.write_text("of an administrator")
    found = packing.expire(places.open_place(str(tmp_path)), 90, now=NOON)
    assert [files for _, files in found] == [1, 1]
    left = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.parquet"))
    assert [name.split("date=")[1][:10] for name in left] == ["2025-12-15", "2026-03-14"]
    assert stranger.exists()
