# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls in a process whose memory is limited.

A footer says how large a Parquet file is in memory, and nobody holds it to that: readers take
what each page says, up to 2 GiB for a page of a few bytes. So files are unpacked where that
costs a file and no report.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

MEMORY_MIB = 1024
"""What a call may take, and once more the bytes of its file, up to as much again."""
READERS = 4

_readers = ThreadPoolExecutor(READERS)
_own = threading.local()


def each(call: Callable[[Any], T], of: Iterable[Any]) -> Iterator[T]:
    """The results in order, by threads that have a process each for `limited`."""
    return _readers.map(call, of)


def limited(call: Callable[..., T], size: int, *arguments: Any) -> T:
    """What a function of a module gives for a file of so many bytes; or a MemoryError."""
    if getattr(_own, "process", None) is None:
        # Arrow's other pools reserve memory that nothing has asked for.
        os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
        spawned = multiprocessing.get_context("spawn")
        _own.pipe, there = spawned.Pipe()
        _own.process = spawned.Process(target=_serve, args=(there,), daemon=True)
        _own.process.start()
        there.close()
    try:
        _own.pipe.send((call, (MEMORY_MIB << 20) + min(size, MEMORY_MIB << 20), arguments))
        result: T | Exception = _own.pipe.recv()
    except (EOFError, ConnectionError):
        _own.process.join()
        _own.process = None
        result = MemoryError()
    if isinstance(result, MemoryError):
        raise MemoryError(f"to read it takes more than {MEMORY_MIB} MiB and its size")
    if isinstance(result, Exception):
        raise result
    return result


def stop() -> None:
    """Ends the calls that run."""
    _readers.shutdown(wait=False, cancel_futures=True)
    for process in multiprocessing.active_children():
        process.kill()


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError):
        while True:
            call, most, arguments = pipe.recv()
            try:
                _limit(most)
                result = call(*arguments)
            except Exception as error:
                result = error
            pipe.send(result)


def _limit(most: int) -> None:
    """Beyond what it has already; where the system does not tell, there is no limit."""
    told = Path("/proc/self/statm")
    if told.exists():
        data = int(told.read_text().split()[5]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (data + most, hard))
