# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `zmeld-fleet`: arguments become calls, results are written, errors are one line.

Exit codes are `zmeld`'s (docs/exit-codes.md): 0 done, 1 done but something was left out
and `--require-all` was given, 2 wrong use or input, 3 something is missing that the
command needs, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from zmeld_fleet import __version__, limited
from zmeld_fleet.words import GROUPINGS, FleetError, inert, plural

T = TypeVar("T")

TRACE = "ZMELD_FLEET_TRACE"
"""With it an error that nobody foresaw shows where it was."""

DONE, MISSED, WRONG, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {inert(message)}; see {self.prog} --help\n")


def run() -> NoReturn:
    """The program: what does not let itself be ended is left behind."""
    code = main()
    deadline = threading.Timer(5.0, os._exit, (code,))
    deadline.daemon = True
    if code == INTERRUPTED:
        deadline.start()
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code."""
    plan = _parser().parse_args(arguments)
    try:
        return int(plan.run(plan))
    except KeyboardInterrupt:
        limited.stop()
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (FleetError, OSError) as error:
        return _fail(error, getattr(error, "code", WRONG))
    except Exception as error:
        if os.environ.get(TRACE):
            raise
        said = f"unexpected {type(error).__name__}: {inert(error)[:200]}"
        hint = "a file may be at fault: try with half of them, and so on"
        return _fail(RuntimeError(f"{said}; {hint}; {TRACE}=1 shows where it was"), WRONG)


def _fail(error: Exception, code: int) -> int:
    print(f"zmeld-fleet: {inert(error)}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="zmeld-fleet", description="What surveys of many machines say together.")
    parser.add_argument("--version", action="version", version=f"zmeld-fleet {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (_add_report, _add_affinity):
        add(commands)
    return parser


def _add_place(command: argparse.ArgumentParser) -> None:
    command.add_argument("place", metavar="PLACE", help="a folder, or s3://, gs://, az://")
    command.add_argument("--key-id", metavar="ID", help="count surveys with this key alone")
    command.add_argument(
        "--since", type=_days, metavar="AGE", help="days that are older are not opened: 30d"
    )


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument("--engine", choices=("duckdb", "spark"), default="duckdb")
    command.add_argument("--threads", type=_positive, metavar="N", help="threads to use")


def _how(plan: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in ("engine", "key_id", "threads", "since")}


def _written(pattern: str, kind: Callable[[str], T], how: str) -> Callable[[str], T]:
    def read(text: str) -> T:
        found = re.fullmatch(pattern, text)
        if not found:
            raise argparse.ArgumentTypeError(f"{text[:40]}: write {how}")
        return kind(found[1])

    return read


_cost = _written(r"([0-9]{1,9}(?:[.][0-9]{1,4})?)", float, "a number, as in 3.50")
_days = _written(r"0*([1-9][0-9]{0,4})d", int, "days, as in 30d")
_positive = _written(r"0*([1-9][0-9]{0,17})", int, "a whole number, 1 or more")


def _add_report(commands: Any) -> None:
    command = commands.add_parser(
        "report",
        help="what each kind of machine would gain",
        description="What each kind of machine would gain with each set-up, where identical "
        "pages are, what changes, which machines stand out, and zmeld.toml for each kind.",
    )
    _add_place(command)
    _add_engine(command)
    command.add_argument("--by", metavar="LABEL", help="a kind is what has this label's value")
    command.add_argument(
        "--cost-per-gib", type=_cost, metavar="MONEY", help="say what the freed memory is worth"
    )
    command.add_argument("--json", action="store_true", help="print JSON (zmeld.fleet.report/2)")
    command.add_argument("--html", metavar="FILE", type=Path, help="write a page with plots")
    command.add_argument("--parquet", metavar="DIR", type=Path, help="write tables as Parquet")
    command.add_argument("--toml", metavar="DIR", type=Path, help="write zmeld.toml of each kind")
    command.add_argument(
        "--prometheus", metavar="FILE", type=Path, help="write gauges, as for a textfile collector"
    )
    command.add_argument(
        "--require-all", action="store_true", help="end with 1 where anything was left out"
    )
    command.set_defaults(run=_report)


def _report(plan: argparse.Namespace) -> int:
    from zmeld_fleet import documents, render_text, reporting, results, writing

    report = reporting.make(plan.place, plan.by, **_how(plan))
    _tell_left_out(report.left_out)
    document = documents.report_document(report, plan.cost_per_gib)
    if plan.html is not None:
        from zmeld_fleet import render_html

        writing.write_whole(plan.html, render_html.render(document).encode())
    if plan.parquet is not None:
        results.write_tables(results.report_tables(report), plan.parquet)
    if plan.toml is not None:
        reporting.write_configurations(report, plan.toml)
    if plan.prometheus is not None:
        from zmeld_fleet import metrics

        writing.write_whole(plan.prometheus, metrics.render(report).encode())
        if (more := len(report.kinds) - metrics.KINDS_MAX) > 0:
            said = f"{plural(more, 'kind has', 'kinds have')} no gauges"
            most = f"only the {metrics.KINDS_MAX} with most machines do"
            print(f"zmeld-fleet: {said}: {most}", file=sys.stderr)
    if plan.json:
        print(results.report_json(report))
    else:
        print(render_text.render(document, _columns()), end="")
    if not report.machines:
        return WRONG
    return MISSED if plan.require_all and report.left_out else DONE


def _add_affinity(commands: Any) -> None:
    command = commands.add_parser(
        "affinity",
        help="which workloads belong together",
        description="What groups of workloads share with each other, in the order of what one "
        "workload of each saves beside the other. Schedulers place; this says what belongs "
        "together.",
    )
    _add_place(command)
    _add_engine(command)
    command.add_argument("--by", choices=GROUPINGS, default="name", help="what makes a group")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON (zmeld.fleet.affinity/1)")
    form.add_argument(
        "--pod-affinity",
        metavar="LABEL",
        help="print podAffinity terms as JSON; the name of a group is the value of this label",
    )
    command.set_defaults(run=_affinity)


def _affinity(plan: argparse.Namespace) -> int:
    from zmeld_fleet import affinity, documents, render_text, reporting, results

    found = reporting.make_affinity(plan.place, plan.by, **_how(plan))
    _tell_left_out(found.left_out)
    if plan.json:
        print(results.affinity_json(found))
    elif plan.pod_affinity is not None:
        print(results.text_of(affinity.pod_affinity(found, plan.pod_affinity)))
    else:
        print(render_text.render(documents.affinity_document(found), _columns()), end="")
    return DONE if found.machines else WRONG


def _columns() -> int:
    return max(40, shutil.get_terminal_size((80, 24)).columns)


LEFT_OUT_TOLD = 1000


def _tell_left_out(found: list[Any]) -> None:
    others = [one for one in found if one.reason.value != "superseded"]
    for one in others[:LEFT_OUT_TOLD]:
        survey = f" survey {one.survey[:8]}" if one.survey else ""
        said = f"left out {one.file}{survey}: {one.reason.value}: {one.why}"
        print(f"zmeld-fleet: {said}", file=sys.stderr)
    if len(others) > LEFT_OUT_TOLD:
        said = plural(len(others) - LEFT_OUT_TOLD, "more is", "more are")
        print(f"zmeld-fleet: {said} named in report --json alone", file=sys.stderr)
    if found:
        older = len(found) - len(others)
        said = f", of these {older} superseded on their day" if older else ""
        print(f"zmeld-fleet: {len(found)} left out{said}", file=sys.stderr)
