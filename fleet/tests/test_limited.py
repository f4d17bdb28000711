# SPDX-License-Identifier: GPL-2.0-or-later
"""A file that takes more memory than it may costs no report, whatever its footer says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from made import Machine, Owner, program, read_rows, varint, write
from zmeld_fleet import limited, reporting, schema

ROWS = 7_000
"""Texts of 40,000 bytes: 280 MB."""


def lower_footer(path):
    """Its second row group says that it is of 134 MB."""
    data = bytearray(path.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    real = varint(pq.read_metadata(path).row_group(1).total_byte_size)
    said = varint((1 << 27) + 1)
    assert len(real) == len(said) and data[footer:].count(real) == 1 and len(data) < 1_000_000
    data[footer:] = data[footer:].replace(real, said)
    path.write_bytes(data)


@pytest.mark.parametrize("record", ["owner", "content"])
def test_a_footer_that_says_less_than_its_pages_unpack_to_is_not_believed(
    tmp_path, monkeypatch, record
):
    """Of contents the column is read where the footer has no smallest and largest value."""
    monkeypatch.setattr(limited, "MEMORY_MIB", 200)
    sound = [Machine(f"m{at}", [Owner("x", program("p", 500))]) for at in range(2)]
    path, _ = (write(tmp_path, machine) for machine in sound)
    table = read_rows(path)
    path.unlink()
    rows = table.slice(0, 2).to_pylist()
    rows[0]["rows"] = ROWS + 2
    at = table["record"].to_pylist().index(record)
    many = {name: pa.repeat(table[name][at], ROWS) for name in schema.ARROW.names}
    texts = pa.array([f"{number:040000}" for number in range(ROWS)])
    many["survey" if record == "content" else "name"] = texts
    settings = {"use_dictionary": False, "write_statistics": ["record"], "compression": "zstd"}
    with pq.ParquetWriter(path, schema.ARROW, **settings) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema.ARROW))
        writer.write_table(pa.table(many).cast(schema.ARROW))
    lower_footer(path)
    report = reporting.make(str(tmp_path))
    ((reason, why),) = [(one.reason.value, one.why) for one in report.left_out]
    assert reason == "values" and "takes more than 200 MiB" in why, why
    assert report.machines == 1


def test_a_process_that_ends_costs_its_call_alone():
    with pytest.raises(MemoryError):
        limited.limited(os._exit, 0, 1)
    assert limited.limited(abs, 0, -3) == 3
    with pytest.raises(TypeError):
        limited.limited(abs, 0, "x")


INTERRUPTED = """
import os, signal, sys, threading, time
from zmeld_fleet import cli, limited, reporting
def make(*_, **__):
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    list(limited.each(lambda seconds: limited.limited(time.sleep, 0, seconds), [3600] * 8))
reporting.make = make
if __name__ == "__main__":
    sys.argv[1:] = ["report", "."]
    cli.run()
"""


def test_an_interrupt_does_not_wait_for_what_is_being_read(tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    environment = os.environ | {"PYTHONPATH": str(Path(limited.__file__).parents[1])}
    command = [sys.executable, script]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
