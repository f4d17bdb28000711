# SPDX-License-Identifier: GPL-2.0-or-later
"""Uniting files: reports say the same, nothing is lost, and it can be cut short anywhere."""

from __future__ import annotations

import os
from datetime import timedelta

import pyarrow as pa
import pytest

from made import (
    NOON,
    Machine,
    Owner,
    changed,
    look,
    plain,
    program,
    read_rows,
    reasons,
    sound,
    write,
)
from test_report import machines
from zmeld_fleet import cli, reporting, results, schema, unite

DAY = timedelta(days=1)
SAME = ("kinds", "fleet", "names", "extremes", "machines", "oldest", "newest")


def fill(place):
    for machine in machines():
        write(place, machine)
    return results.plain(reporting.make(str(place)))


def files(place):
    return sorted((place / schema.FOLDER).rglob("*.parquet"))


def same(before, place):
    after = results.plain(reporting.make(str(place)))
    assert all(after[name] == before[name] for name in SAME)
    return after


@pytest.mark.parametrize("most", [8_000_000, 13_000])
def test_a_report_of_united_files_says_the_same(tmp_path, capsys, monkeypatch, most):
    monkeypatch.setattr(unite, "ROWS_MAX", most)
    before = fill(tmp_path)
    for path in files(tmp_path):
        os.chmod(path, 0o640)
    os.chmod(path, 0o600)
    assert cli.main(["unite", str(tmp_path)]) == 0
    made = len(files(tmp_path))
    assert made == (1 if most > 13_000 else 2)
    assert f"8 surveys united: 8 files before, {made} files now" in (
        capsys.readouterr().out.replace("1 file now", "1 files now")
    )
    assert {path.stat().st_mode & 0o777 for path in files(tmp_path)} <= {0o600, 0o640}
    assert same(before, tmp_path)["left_out"] == []
    rows = read_rows(files(tmp_path)[0])
    hashes = rows["hash_high"].drop_null().to_pylist()
    assert hashes == sorted(hashes)


def test_what_came_since_is_added_and_large_files_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(unite, "ROWS_MAX", 30_000)
    fill(tmp_path)
    assert cli.main(["unite", str(tmp_path)]) == 0
    stay = {path: path.stat().st_mtime_ns for path in files(tmp_path)}
    sound(tmp_path, 5)
    before = results.plain(reporting.make(str(tmp_path)))
    assert cli.main(["unite", str(tmp_path)]) == 0
    same(before, tmp_path)
    large = [path for path in stay if path.exists()]
    assert large and all(path.stat().st_mtime_ns == stay[path] for path in large)


def test_where_it_was_cut_short_nothing_counts_twice_and_the_next_run_clears_up(
    tmp_path, monkeypatch
):
    """Ended between the new name and the last of the old files."""
    before = fill(tmp_path)
    with monkeypatch.context() as patched:
        removed = []
        real = os.unlink

        def unlink(path, **how):
            if str(path).endswith(".parquet") and len(removed) == 3:
                raise KeyboardInterrupt
            removed.append(path)
            real(path, **how)

        patched.setattr(os, "unlink", unlink)
        assert cli.main(["unite", str(tmp_path)]) == 130
    assert len(files(tmp_path)) == 6
    assert {one["reason"] for one in same(before, tmp_path)["left_out"]} == {"twice"}
    assert cli.main(["unite", str(tmp_path)]) == 0
    assert same(before, tmp_path)["left_out"] == [] and len(files(tmp_path)) == 1


def test_what_cannot_be_read_or_is_newer_stays_as_it_is(tmp_path, capsys):
    paths = sound(tmp_path, 5)
    paths[0].write_bytes(b"PAR1 torn")
    changed(paths[1], lambda t: t.append_column("new", pa.array([1] * len(t))))
    kept = {path: path.read_bytes() for path in paths[:2]}
    assert cli.main(["unite", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert f"stays as it is: {paths[0]}: damaged" in err and "columns of a newer zmeld: new" in err
    assert all(path.read_bytes() == data for path, data in kept.items())
    found = look(tmp_path)
    assert (len(files(tmp_path)), len(found.surveys), reasons(found)) == (3, 4, ["damaged"])


@pytest.mark.parametrize("most", [8_000_000, 400, 200])
def test_a_survey_goes_only_where_the_same_one_is_in_another_file(
    tmp_path, capsys, monkeypatch, most
):
    """Who knew its id had it deleted by a larger file; a copy of it goes."""
    monkeypatch.setattr(unite, "ROWS_MAX", most)
    real, *rest = (plain(f"own{at}") for at in range(4))
    path = write(tmp_path, real)
    owners = [Owner("nginx.service", program("forged", 150))]
    forged = write(tmp_path, Machine("other", owners, survey=real.survey))
    assert forged.stat().st_size > path.stat().st_size
    for machine in rest:
        copied = write(tmp_path, machine)
        copied.with_name(f"copy-{copied.name}").write_bytes(copied.read_bytes())
    data = path.read_bytes()
    for _ in range(2):
        assert cli.main(["unite", str(tmp_path)]) == 0
        err = capsys.readouterr().err
        assert "1 stays as it is\n" in err and f"{path}: twice: another file" in err
        assert path.read_bytes() == data
    assert sorted(reasons(look(tmp_path))) == ["twice"]


def test_two_do_not_unite_a_day_at_once(tmp_path, capsys):
    folder = sound(tmp_path)[0].parent
    with unite._alone(folder):
        assert cli.main(["unite", str(tmp_path)]) == 2
    assert "another zmeld-fleet" in capsys.readouterr().err
    assert cli.main(["unite", str(tmp_path)]) == 0


def test_a_full_disk_leaves_the_files_as_they_were(tmp_path, monkeypatch, capsys):
    before = fill(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cli.main(["unite", str(tmp_path)]) == 2
    assert "No space left" in capsys.readouterr().err
    monkeypatch.undo()
    left = list((tmp_path / schema.FOLDER / f"date={NOON:%Y-%m-%d}").iterdir())
    assert len(left) == 8
    same(before, tmp_path)
