# SPDX-License-Identifier: GPL-2.0-or-later
"""Who answers: DuckDB inside of this process, or Spark.

Both take the same expressions.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa

from zmeld_fleet.schema import ARROW, NEW
from zmeld_fleet.words import FleetError

ENGINE_MIB = 512
"""What DuckDB may use of memory before it writes to disk."""


class EngineError(FleetError):
    """An engine is missing, or failed; with the way out."""

    code = 3


class Engine:
    """DuckDB, embedded; other engines have some of it in common."""

    name = "duckdb"

    def __init__(self, threads: int | None = None) -> None:
        self._spill = tempfile.TemporaryDirectory(prefix="zmeld-fleet-")
        settings: dict[str, Any] = {} if threads is None else {"threads": threads}
        settings |= {"memory_limit": f"{ENGINE_MIB}MiB", "preserve_insertion_order": False}
        engine = duckdb.connect(config=settings | {"temp_directory": self._spill.name})
        # No file makes it load or convert anything beyond Parquet.
        for name in ("enable_geoparquet_conversion", "autoinstall_known_extensions"):
            engine.execute(f"SET {name} = false")
        self._connection: Any = ibis.duckdb.from_connection(engine)

    def read(self, paths: list[str]) -> ir.Table:
        """The rows of these files."""
        return self._connection.read_parquet(paths, hive_partitioning=False, union_by_name=True)

    def keep(self, rows: ir.Table | pa.Table) -> ir.Table:
        """A small table of ours, or an answer that several questions need."""
        kept = ibis.memtable(rows) if isinstance(rows, pa.Table) else rows
        return self._connection.create_table(ibis.util.gen_name("kept"), kept, temp=True)

    def ask(self, expression: ir.Table) -> pa.Table:
        """The answer, in one order whoever gives it."""
        found: pa.Table = self._connection.to_pyarrow(expression)
        return found.sort_by([(name, "ascending") for name in found.column_names])

    def close(self) -> None:
        """Lets go of everything."""
        self._connection.disconnect()
        self._spill.cleanup()


class Spark(Engine):
    """Spark; `SPARK_MASTER` and the usual files say where, else it runs in this machine."""

    name = "spark"

    def __init__(self, threads: int | None = None) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise EngineError(
                "the engine spark needs PySpark: pip install 'zmeld-fleet[spark]'"
            ) from error
        master = os.environ.get("SPARK_MASTER", f"local[{threads or '*'}]")
        builder = SparkSession.builder.appName("zmeld-fleet").master(master)
        try:
            self._session = builder.config(map=_SPARK).getOrCreate()
        except Exception as error:
            raise EngineError(f"Spark does not start, is there a Java? {error}") from error
        self._session.sparkContext.setLogLevel("ERROR")
        self._connection = ibis.pyspark.connect(self._session)

    def read(self, paths: list[str]) -> ir.Table:
        """The rows of these files."""
        from pyspark.sql.pandas.types import from_arrow_schema

        # Without a schema it would take the first file's columns for all.
        columns = pa.schema([field for field in ARROW if field.name not in NEW])
        return self._view(self._session.read.schema(from_arrow_schema(columns)).parquet(*paths))

    def keep(self, rows: ir.Table | pa.Table) -> ir.Table:
        """In Spark's own store."""
        if isinstance(rows, pa.Table):
            return self._view(self._session.createDataFrame(rows))
        return self._view(self._session.sql(self._connection.compile(rows)).persist())

    def _view(self, frame: Any) -> ir.Table:
        name = ibis.util.gen_name("view")
        frame.createOrReplaceTempView(name)
        return self._connection.table(name)

    def close(self) -> None:
        """Ends the session."""
        self._session.stop()


_SPARK: dict[str, Any] = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "16",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": os.environ.get("ZMELD_FLEET_SPARK_MEMORY", "2g"),
    "spark.ui.showConsoleProgress": "false",
}

ENGINES = {"duckdb": Engine, "spark": Spark}
