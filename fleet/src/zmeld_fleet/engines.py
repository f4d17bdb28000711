# SPDX-License-Identifier: GPL-2.0-or-later
"""Who answers: DuckDB inside of this process, or Spark.

Both take the same expressions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from zmeld_fleet.schema import ARROW

MEMORY_MIB = 512
"""What DuckDB may use of memory before it writes to disk."""


class EngineError(Exception):
    """An engine is missing, or failed; with the way out."""


class Engine(Protocol):
    """What is asked of an engine."""

    name: str

    def read(self, paths: list[str]) -> ir.Table:
        """The rows of these files."""

    def take(self, table: pa.Table) -> ir.Table:
        """A small table of ours, for it to join with."""

    def keep(self, expression: ir.Table) -> ir.Table:
        """The same, computed once for several questions."""

    def ask(self, expression: ir.Table) -> pa.Table:
        """The answer, sorted by nothing in particular."""

    def close(self) -> None:
        """Lets go of everything."""


class DuckDB:
    """DuckDB, embedded."""

    name = "duckdb"

    def __init__(self, threads: int | None = None) -> None:
        settings: dict[str, Any] = {"memory_limit": f"{MEMORY_MIB}MiB"}
        if threads is not None:
            settings["threads"] = threads
        self._connection = ibis.duckdb.connect(**settings)
        self._connection.raw_sql("SET preserve_insertion_order = false")

    def read(self, paths: list[str]) -> ir.Table:
        """The rows of these files."""
        return self._connection.read_parquet(paths, hive_partitioning=False, union_by_name=True)

    def take(self, table: pa.Table) -> ir.Table:
        """As a table of its own."""
        return self._connection.create_table(
            ibis.util.gen_name("taken"), ibis.memtable(table), temp=True
        )

    def keep(self, expression: ir.Table) -> ir.Table:
        """Into a table of its own."""
        name = ibis.util.gen_name("kept")
        return self._connection.create_table(name, expression, temp=True)

    def ask(self, expression: ir.Table) -> pa.Table:
        """The answer."""
        return self._connection.to_pyarrow(expression)

    def close(self) -> None:
        """Closes the database."""
        self._connection.disconnect()


class Spark:
    """Spark; `SPARK_MASTER` and the usual files say where, else it runs in this machine."""

    name = "spark"

    def __init__(self, threads: int | None = None) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise EngineError(
                "the engine spark needs PySpark: pip install 'zmeld-fleet[spark]'"
            ) from error
        local = f"local[{threads or '*'}]"
        builder = SparkSession.builder.appName("zmeld-fleet")
        for key, value in _SPARK.items():
            builder = builder.config(key, value)
        try:
            session = builder.master(os.environ.get("SPARK_MASTER", local)).getOrCreate()
        except Exception as error:
            raise EngineError(f"Spark does not start, is there a Java? {error}") from error
        session.sparkContext.setLogLevel("ERROR")
        self._session = session
        self._connection = ibis.pyspark.connect(session)

    def read(self, paths: list[str]) -> ir.Table:
        """The rows of these files."""
        from pyspark.sql.pandas.types import from_arrow_schema

        # Without a schema it would take the first file's columns for all.
        return self._view(self._session.read.schema(from_arrow_schema(ARROW)).parquet(*paths))

    def take(self, table: pa.Table) -> ir.Table:
        """As a view of its own."""
        return self._view(self._session.createDataFrame(table))

    def keep(self, expression: ir.Table) -> ir.Table:
        """Held in Spark's own store."""
        return self._view(self._session.sql(self._connection.compile(expression)).persist())

    def _view(self, frame: Any) -> ir.Table:
        name = ibis.util.gen_name("view")
        frame.createOrReplaceTempView(name)
        return self._connection.table(name)

    def ask(self, expression: ir.Table) -> pa.Table:
        """The answer."""
        return self._connection.to_pyarrow(expression)

    def close(self) -> None:
        """Ends the session."""
        self._session.stop()


_SPARK = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.parquet.filterPushdown": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": os.environ.get("ZMELD_FLEET_SPARK_MEMORY", "2g"),
    "spark.ui.showConsoleProgress": "false",
}

ENGINES: dict[str, Callable[[int | None], Engine]] = {"duckdb": DuckDB, "spark": Spark}


def start(name: str, threads: int | None = None) -> Engine:
    """The engine of that name."""
    return ENGINES[name](threads)


def rows_of(table: pa.Table, order: Iterable[str]) -> list[dict[str, Any]]:
    """The answer's rows in one order, whoever gave it."""
    keys = list(order)
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: tuple((row[key] is None, row[key]) for key in keys))
