# SPDX-License-Identifier: GPL-2.0-or-later
"""Synthetic machines are sound surveys, marked, and as many as were asked for."""

from __future__ import annotations

import pyarrow as pa

from made import Machine, Owner, program, read_rows, table_of, write
from zmeld_fleet import catalogue, cli, places, reporting, schema, synthesis


def real(place):
    for at in range(3):
        owners = [
            Owner("nginx", program("nginx", 700 + at, 100)),
            Owner("own", program(f"own{at}", 900)),
        ]
        write(place, Machine(f"host{at}", owners, k=512))


def test_they_count_and_are_marked(tmp_path, capsys):
    real(tmp_path / "real")
    target = tmp_path / "made"
    assert cli.main(["synth", str(tmp_path / "real"), str(target), "--machines", "60"]) == 0
    report = reporting.make(str(target), by="role")
    assert (report.machines, report.synthetic, report.left_out) == (60, 60, [])
    assert len(report.kinds) == 4
    assert report.fleet.duplicates.between_machines.value > 0
    assert all(setup.gains.value > 0 for setup in report.fleet.setups)


def test_sketches_can_be_cut_and_seeds_differ(tmp_path, capsys):
    real(tmp_path / "real")
    sizes = []
    for seed, sketch in ((1, "512"), (2, "64")):
        target = tmp_path / str(seed)
        arguments = ["synth", str(tmp_path / "real"), str(target), "--machines", "20"]
        assert cli.main([*arguments, "--seed", str(seed), "--sketch", sketch]) == 0
        found = catalogue.read(places.open_place(str(target)))
        assert len(found.surveys) == 20 and found.left_out == []
        sizes.append(sum(survey.facts["rows"] for survey in found.surveys))
    assert sizes[1] < sizes[0] / 4


def test_nothing_to_make_them_from_is_one_line(tmp_path, capsys):
    (tmp_path / "zmeld-survey-2").mkdir()
    assert cli.main(["synth", str(tmp_path), str(tmp_path), "--machines", "2"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_machines_that_are_unlike_or_say_little_make_sound_ones(tmp_path, capsys):
    place, target = tmp_path / "real", tmp_path / "made"
    for at, ram in enumerate((None, 2**24, 2**52)):
        pages = 3000 if at else 200
        owners = [Owner("nginx", program(f"own{at}", pages))]
        path = write(place, Machine(f"host{at}", owners, facts={"ram_bytes": ram}))
    rows = read_rows(path).to_pylist()
    for row in rows:
        row["hash_low"] = None if row["count"] == 1 and row["owner"] else row["hash_low"]
    path.unlink()
    write(place, Machine("host2", []), pa.Table.from_pylist(rows, schema=schema.ARROW))
    assert cli.main(["synth", str(place), str(target), "--machines", "60"]) == 0
    found = catalogue.read(places.open_place(str(target)))
    assert (len(found.surveys), found.left_out) == (60, [])


def test_a_file_that_takes_too_much_memory_ends_no_synthesis(tmp_path, capsys, monkeypatch):
    real(tmp_path / "real")
    true, bad = synthesis.limited, []

    def limited(call, size, place, survey):
        if survey.facts["host"] == "host1":
            bad.append(survey.file.name)
            raise MemoryError("too much")
        return true(call, size, place, survey)

    monkeypatch.setattr(synthesis, "limited", limited)
    target = str(tmp_path / "made")
    assert cli.main(["synth", str(tmp_path / "real"), target, "--machines", "5"]) == 0
    out, err = capsys.readouterr()
    assert "2 real surveys" in out and bad[0] in err and "too much" in err


def test_what_is_only_just_believed_spoils_no_synthesis(tmp_path, capsys):
    real(tmp_path / "real")
    names = [f"{of}{end}" for of in ("pool_zstd", "melded_lz4") for end in ("", "_high")]
    for at, (most, sketch) in enumerate(((4.0, 512), (0.0, 2**40))):
        whose = Machine(f"bad{at}", [Owner("nginx", program("bad", 400))], k=512)
        rows = table_of(whose).to_pylist()
        for row in rows:
            if row["record"] == "owner" and most:
                row |= dict.fromkeys(names, most * 4096 * (row["pages"] + 1))
        rows[0]["sketch_size"] = sketch
        write(tmp_path / "real", whose, pa.Table.from_pylist(rows, schema=schema.ARROW))
    assert catalogue.read(places.open_place(str(tmp_path / "real"))).left_out == []
    target = tmp_path / "made"
    assert cli.main(["synth", str(tmp_path / "real"), str(target), "--machines", "60"]) == 0
    found = catalogue.read(places.open_place(str(target)))
    assert (len(found.surveys), found.left_out) == (60, [])
    assert "no machine is made from it" in capsys.readouterr().err


def test_what_would_not_count_gets_no_name(tmp_path, capsys, monkeypatch):
    real(tmp_path / "real")
    true = synthesis._changed

    def changed(part, *more):
        made = true(part, *more)
        made.row["pages"] = 0
        return made

    monkeypatch.setattr(synthesis, "_changed", changed)
    target = tmp_path / "made"
    assert cli.main(["synth", str(tmp_path / "real"), str(target), "--machines", "3"]) == 2
    assert "would not count" in capsys.readouterr().err
    assert not [path for path in target.rglob("*") if path.is_file()]


def test_the_work_does_not_grow_with_the_squares_of_owners(monkeypatch):
    """Of machines that have very many owners of one name."""
    calls = []
    monkeypatch.setattr(synthesis.Part, "distinct", property(lambda _: calls.append(1) or 1.0))
    contents = pa.table({"hash_high": pa.array([], pa.int64())})
    part = synthesis.Part({"name": "x", "theta": schema.THETA_ALL}, contents)
    synthesis._common_share([synthesis.Template({}, [part] * 100, [])] * 8)
    assert len(calls) < 3 * 800
