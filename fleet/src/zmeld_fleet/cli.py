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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from zmeld_fleet import __version__, catalogue
from zmeld_fleet.words import FleetError, inert, plural

T = TypeVar("T")

TRACE = "ZMELD_FLEET_TRACE"
"""With it an error that nobody foresaw shows where it was."""

DONE, MISSED, WRONG, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(WRONG, f"{self.prog}: {inert(message)}; see {self.prog} --help\n")


def run() -> NoReturn:
    """The program."""
    sys.exit(main())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit code."""
    plan = _parser().parse_args(arguments)
    try:
        return int(plan.run(plan))
    except KeyboardInterrupt:
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
    for add in (_add_report, _add_unite):
        add(commands)
    return parser


def _written(pattern: str, kind: Callable[[str], T], how: str) -> Callable[[str], T]:
    def read(text: str) -> T:
        found = re.fullmatch(pattern, text)
        if not found:
            raise argparse.ArgumentTypeError(f"{text[:40]}: write {how}")
        return kind(found[1])

    return read


def _file(text: str) -> Path:
    """A file that is written when all is computed: whether it can be is known before."""
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        missing = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise argparse.ArgumentTypeError(f"{text}: {missing}")
    with suppress(FileNotFoundError), path.open("rb") as file:
        # An earlier report's is replaced, and a key is not.
        if not file.read(14).startswith((b"<!DOCTYPE html", b"# HELP zmeld")):
            raise argparse.ArgumentTypeError(f"{text}: it is there already, and no report's")
    return path


_days = _written(r"0*([1-9][0-9]{0,4})d", int, "days, as in 30d")
_positive = _written(r"0*([1-9][0-9]{0,17})", int, "a whole number, 1 or more")


def _add_report(commands: Any) -> None:
    command = commands.add_parser(
        "report",
        help="what each kind of machine would gain",
        description="How old the surveys are, what memory is idle, which kinds of machine would "
        "gain most and with which zmeld.toml; then duplicates, services, and both ends of each "
        "measure.",
    )
    command.add_argument("place", metavar="PLACE", help="a folder")
    command.add_argument(
        "--by",
        metavar="LABEL",
        help="a kind is what has this label's value (where there is: role)",
    )
    command.add_argument(
        "--since",
        type=_days,
        metavar="AGE",
        default=catalogue.DAYS,
        help=f"count surveys of so many days, today included: {catalogue.DAYS}d",
    )
    command.add_argument("--key-id", metavar="ID", help="count surveys with this key alone")
    command.add_argument("--engine", choices=("duckdb", "spark"), default="duckdb")
    command.add_argument("--threads", type=_positive, metavar="N", help="threads to use")
    command.add_argument("--json", action="store_true", help="print JSON (zmeld.fleet.report/3)")
    command.add_argument("--html", metavar="FILE", type=_file, help="write a page")
    command.add_argument("--toml", metavar="DIR", type=Path, help="write zmeld.toml of each kind")
    command.add_argument(
        "--prometheus",
        metavar="FILE",
        type=_file,
        help="write gauges, as for a textfile collector",
    )
    command.add_argument(
        "--require-all", action="store_true", help="end with 1 where anything was left out"
    )
    command.set_defaults(run=_report)


def _report(plan: argparse.Namespace) -> int:
    from zmeld_fleet import documents, render_text, reporting, results, writing

    how = ("by", "engine", "key_id", "threads", "since")
    report = reporting.make(plan.place, **{name: getattr(plan, name) for name in how})
    _tell_left_out(report.left_out)
    document = documents.report_document(report)
    if plan.html is not None:
        from zmeld_fleet import render_html

        writing.write_whole(plan.html, render_html.render(document).encode())
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
        columns = max(40, shutil.get_terminal_size((80, 24)).columns)
        print(render_text.render(document, columns), end="")
    if not report.machines:
        return WRONG
    return MISSED if plan.require_all and report.left_out else DONE


def _add_unite(commands: Any) -> None:
    command = commands.add_parser(
        "unite",
        help="make few files of many, which reports read faster",
        description="Puts the surveys of each day into few files, sorted by hash, and removes "
        "the files that they were in. What cannot be read stays as it is, and is named.",
    )
    command.add_argument("place", metavar="PLACE", help="a folder")
    command.set_defaults(run=_unite)


def _unite(plan: argparse.Namespace) -> int:
    from zmeld_fleet import places, unite

    done = unite.unite(places.open_place(plan.place))
    _tell_left_out(done.kept, "stays as it is")
    before, after = (
        plural(count, "file", "files") for count in (done.files_before, done.files_after)
    )
    print(f"{plural(done.surveys, 'survey', 'surveys')} united: {before} before, {after} now.")
    return DONE


LEFT_OUT_TOLD = 1000


def _tell_left_out(found: list[Any], what: str = "left out") -> None:
    others = [one for one in found if not one.reason.is_expected]
    for one in others[:LEFT_OUT_TOLD]:
        survey = f" survey {one.survey[:8]}" if one.survey else ""
        said = f"{what}: {one.file}{survey}: {one.reason.value}: {one.why}"
        print(f"zmeld-fleet: {said}", file=sys.stderr)
    if len(others) > LEFT_OUT_TOLD:
        said = plural(len(others) - LEFT_OUT_TOLD, "more is", "more are")
        print(f"zmeld-fleet: {said} named in report --json alone", file=sys.stderr)
    if found:
        rest = len(found) - len(others)
        said = f", {rest} of them surveyed again, made anew or short of memory" if rest else ""
        print(f"zmeld-fleet: {len(found)} {what}{said}", file=sys.stderr)
