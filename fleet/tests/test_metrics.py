# SPDX-License-Identifier: GPL-2.0-or-later
"""Gauges for Prometheus, and what asks for them: dashboards and rules."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from conftest import TOP
from made import NOON, Machine, Owner, program, write
from zmeld_fleet import cli, metrics, reporting

HOSTILE = 'a"b\\c\nd\x1b[2J'
NAME = re.compile(r"zmeld_[a-z0-9_]+")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("place")
    for at in range(6):
        owners = [Owner("ssh", program("ssh", 300, 200)), Owner("own", program(f"{at}", 500, 0))]
        labels = {"role": "web" if at % 2 else HOSTILE}
        write(place, Machine(f"host{at}", owners, labels))
    (place / "zmeld-survey-2" / "date=2026-03-14" / "torn.parquet").write_bytes(b"PAR1")
    return place


@pytest.fixture(scope="module")
def report(place):
    return reporting.make(str(place), by="role")


def read(text):
    """Samples by family, as Prometheus' own parser reads them."""
    families = list(text_string_to_metric_families(text))
    assert all(family.type == "gauge" and family.documentation for family in families)
    assert len({family.name for family in families}) == len(families)
    return {family.name: family.samples for family in families}


def test_gauges_are_what_the_report_says(place, report, tmp_path, capsys):
    path = tmp_path / "fleet.prom"
    command = ["report", str(place), "--by", "role", "--prometheus", str(path)]
    assert cli.main(command) == 0
    found = read(path.read_text())
    machines = {one.labels["kind"]: one.value for one in found["zmeld_fleet_machines"]}
    assert machines["web"] == 3 and sum(machines.values()) == report.machines == 6
    gains = found["zmeld_fleet_gain_bytes"]
    assert len(gains) == sum(len(kind.setups) for kind in report.kinds)
    for kind in report.kinds:
        for setup in kind.setups:
            labels = {"codec": setup.codec, "melded": "yes" if setup.melded else "no"}
            same = [one for one in gains if labels.items() <= one.labels.items()]
            assert setup.gains.value in [one.value for one in same]
    newest = {one.value for one in found["zmeld_fleet_newest_survey_time_seconds"]}
    assert newest == {NOON.timestamp()}
    (torn,) = found["zmeld_fleet_left_out"]
    assert (torn.labels, torn.value) == ({"reason": "damaged"}, 1.0)


def test_a_report_of_nothing_is_no_mistake(report):
    empty = replace(report, kinds=[], fleet=None, left_out=[], machines=0)
    of_none = {f"zmeld_fleet_{one}_machines" for one in ("silent", "refused")}
    of_none |= {"zmeld_fleet_surveys_used", "zmeld_fleet_kinds_left_out"}
    assert set(read(metrics.render(empty))) == of_none


def called(report, names):
    """The report with a kind of each name, the first with most machines."""
    kinds = [
        replace(report.kinds[0], name=name, machines=2000 - at) for at, name in enumerate(names)
    ]
    return replace(report, kinds=kinds)


def test_names_that_look_alike_stay_apart(report):
    long = "x" * 600
    names = ["a\nb", "a\\x0ab", "a\\x0ab (2)", "a b", "a\u00a0b", long + "1", long + "2"]
    names += ["\x01" * 200 + end for end in "ab"]
    found = read(metrics.render(called(report, names)))
    for samples in found.values():
        labels = [tuple(sorted(one.labels.items())) for one in samples]
        assert len(set(labels)) == len(labels)
    kinds = {one.value: one.labels["kind"] for one in found["zmeld_fleet_machines"]}
    assert len(set(kinds.values())) == len(names)
    # Who is shown as he is keeps his name, whatever the others call themselves.
    told = [kinds[2000 - at] for at in range(len(names))]
    assert told[1:4] == ["a\\x0ab", "a\\x0ab (2)", "a b"]
    assert told[0] == "a\\x0ab (3)" and told[4] == "a b (2)"


def test_kinds_without_end_have_no_gauges(report, tmp_path, monkeypatch, capsys):
    many = called(report, [f"node{at}" for at in range(metrics.KINDS_MAX + 7)])
    found = read(metrics.render(many))
    kinds = [one.labels["kind"] for one in found["zmeld_fleet_machines"]]
    assert kinds == [f"node{at}" for at in range(metrics.KINDS_MAX)]
    for samples in found.values():
        assert {one.labels.get("kind", kinds[0]) for one in samples} <= set(kinds)
    (more,) = found["zmeld_fleet_kinds_left_out"]
    assert more.value == 7
    monkeypatch.setattr(reporting, "make", lambda *_, **__: many)
    assert cli.main(["report", str(tmp_path), "--prometheus", str(tmp_path / "x.prom")]) == 0
    said = capsys.readouterr().err
    assert (
        said.splitlines().count(
            "zmeld-fleet: 7 kinds have no gauges: only the 100 with most machines do"
        )
        == 1
    )


def known():
    """What zmeld and zmeld-fleet export."""
    source = (TOP / "crates/zmeld-swap/src/status/metrics.rs").read_text()
    of_zmeld = re.findall(r'^    "(zmeld_[a-z0-9_]+)" (?:gauge|counter) "', source, re.MULTILINE)
    assert len(of_zmeld) > 40
    return {*of_zmeld, *metrics.FAMILIES}


def check(query):
    """A query that Prometheus parses and whose metrics there are."""
    plain = (
        query.replace("$__rate_interval", "5m").replace("$kind", ".*").replace("$instance", "x")
    )
    promql_parser.parse(plain)
    names = set(NAME.findall(query))
    assert names and names <= known(), query
    return names


@pytest.mark.parametrize("name", ["zmeld.json", "zmeld-fleet.json"])
def test_dashboards_ask_for_what_there_is(name):
    board = json.loads((TOP / "packaging" / "grafana" / name).read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    taken = set()
    for panel in panels:
        assert panel["title"] and panel["description"] and panel["targets"]
        for target in panel["targets"]:
            check(target["expr"])
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            assert NAME.search(variable["query"]["query"])[0] in known()


def test_rules_ask_for_what_there_is():
    rules = yaml.safe_load((TOP / "packaging" / "prometheus" / "rules.yaml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in alerts}) == len(alerts) > 4
    for rule in alerts:
        check(rule["expr"])
        assert rule["annotations"]["summary"] and rule["labels"]["severity"]
        assert re.fullmatch(r"\d+[mhd]", rule["for"])


def rules_that(rules, query):
    """The alerts whose query has this."""
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    return {rule["alert"] for rule in alerts if query in rule["expr"]}


def test_machines_and_reports_that_are_gone_are_told():
    rules = yaml.safe_load((TOP / "packaging" / "prometheus" / "rules.yaml").read_text())
    assert rules_that(rules, "time() - zmeld_fleet_oldest_survey_time_seconds")
    assert rules_that(rules, "absent(zmeld_fleet_surveys_used)")


def queries(name, title):
    """A panel's queries, with all kinds and machines chosen."""
    board = json.loads((TOP / "packaging" / "grafana" / name).read_text())
    (panel,) = [panel for panel in board["panels"] if panel["title"] == title]
    found = [target["expr"] for target in panel["targets"]]
    return [one.replace("$kind", ".*").replace("$instance", ".*") for one in found]


def test_a_tier_without_a_table_is_no_gap():
    for name in ("zmeld.json", "zmeld-fleet.json"):
        board = (TOP / "packaging" / "grafana" / name).read_text()
        sums = re.findall(r"sum\(zmeld_tier_metadata_bytes[^)]*\)(.{13})", board)
        assert sums and set(sums) == {" or vector(0)"}


def test_the_interval_is_the_best_setups():
    low, high = queries("zmeld-fleet.json", "Gain over time, by kind")[1:]
    best = 'and on (kind, codec, melded) topk by (kind) (1, zmeld_fleet_gain_bytes{kind=~".*"})'
    assert best in low and best in high
