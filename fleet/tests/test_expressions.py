# SPDX-License-Identifier: GPL-2.0-or-later
"""The questions are SQL that every engine takes."""

from __future__ import annotations

import pytest
import sqlglot

from zmeld_fleet import engines, expressions

PARSED_AS = {"pyspark": "spark"}
TAKEN = {"SUM", "COUNT", "MIN", "MAX", "FLOOR", "CAST"}


def dialects():
    for dialect in engines.SQL_ENGINES:
        if dialect == "pyspark":
            yield pytest.param(dialect, marks=pytest.mark.long)
        else:
            yield dialect


@pytest.mark.parametrize("dialect", list(dialects()))
def test_every_question_is_sql_there(dialect):
    if dialect == "pyspark":
        pytest.importorskip("pyspark")
    for name, question in expressions.portable().items():
        sql = engines.sql_for(question, dialect)
        parsed = sqlglot.parse_one(sql, read=PARSED_AS.get(dialect, dialect))
        assert parsed.key == "select", name


def test_no_function_of_one_engine_is_used():
    for name, question in expressions.portable().items():
        parsed = sqlglot.parse_one(engines.sql_for(question, "trino"), read="trino")
        used = {call.sql_name() for call in parsed.find_all(sqlglot.exp.Func)}
        logic = {"AND", "OR", "CASE", "IF"}
        assert used <= TAKEN | logic, (name, used)
        assert not list(parsed.find_all(sqlglot.exp.Anonymous)), name
        assert not list(parsed.find_all(sqlglot.exp.Window)), name
