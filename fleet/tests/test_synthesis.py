# SPDX-License-Identifier: GPL-2.0-or-later
"""Synthetic machines are sound surveys, marked, and as many as were asked for."""

from __future__ import annotations

from made import Machine, Owner, program, write
from zmeld_fleet import catalogue, cli, places, reporting


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
