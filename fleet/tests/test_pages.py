# SPDX-License-Identifier: GPL-2.0-or-later
"""What a file unpacks to is known before it is, whatever its footer says."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from made import Machine, Owner, program, read_rows, write
from zmeld_fleet import catalogue, pages, places, schema, validity
from zmeld_fleet.catalogue import FileContents, LeftOut


def survey(place):
    return write(place, Machine("m", [Owner("nginx.service", program("p", 500))]))


def look(place):
    place = places.open_place(str(place))
    (stored,) = place.surveys()
    return catalogue.look(place, stored)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["zstd", "none", "snappy"])
def test_pages_are_added_up_as_the_footer_has_them(tmp_path, version, compression):
    table = read_rows(survey(tmp_path), partitioning=None)
    path = tmp_path / "x.parquet"
    settings = {"data_page_version": version, "compression": compression}
    pq.write_table(table, path, row_group_size=200, data_page_size=256, **settings)
    with pa.OSFile(str(path)) as file:
        metadata = pq.read_metadata(path)
        for at in range(metadata.num_row_groups):
            group = metadata.row_group(at)
            columns = [group.column(number) for number in range(group.num_columns)]
            for column in columns:
                found = pages.unpacked(file, group, {column.path_in_schema})
                # The footer counts the headers, too.
                assert found <= column.total_uncompressed_size <= found + 8192
            whole = pages.unpacked(file, group, {one.path_in_schema for one in columns})
            assert whole > 0.3 * group.total_byte_size


def test_a_column_without_rows_has_no_pages_of_data(tmp_path):
    write(tmp_path, Machine("empty", [], {}, {}))
    assert isinstance(look(tmp_path), FileContents)


def test_texts_of_contents_are_no_way_around(tmp_path, monkeypatch):
    """Where the footer has no smallest and largest value the column itself is read."""
    monkeypatch.setattr(validity, "GROUP_BYTES_MAX", 2 << 20)
    path = survey(tmp_path)
    table = read_rows(path, partitioning=None)
    path.unlink()
    few = table.slice(0, 2).to_pylist()
    few[0]["rows"] = 2002
    row = {name: pa.repeat(table[name][9], 2000) for name in schema.ARROW.names}
    row["survey"] = pa.repeat("x" * 2000, 2000)
    settings = {"compression": "zstd", "use_dictionary": False, "write_statistics": ["record"]}
    with pq.ParquetWriter(path, schema.ARROW, **settings) as writer:
        writer.write_table(pa.Table.from_pylist(few, schema=schema.ARROW))
        writer.write_table(pa.table(row).cast(schema.ARROW))
    lower_footer(path)
    found = look(tmp_path)
    assert isinstance(found, LeftOut) and "unpacks to" in found.why


def lower_footer(path):
    """Its second row group says that it is of 1.2 MB."""
    data = bytearray(path.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    real = varint(pq.read_metadata(path).row_group(1).total_byte_size)
    said = varint(1_200_000)
    assert len(real) == len(said) and data[footer:].count(real) == 1 and len(data) < 100_000
    data[footer:] = data[footer:].replace(real, said)
    path.write_bytes(data)


def varint(value):
    """As Thrift writes it."""
    value, written = value << 1, b""
    while value > 127:
        written += bytes([value & 127 | 128])
        value >>= 7
    return written + bytes([value])


def test_a_footer_that_says_less_than_its_pages_unpack_to_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(validity, "GROUP_BYTES_MAX", 2 << 20)
    path = survey(tmp_path)
    table = read_rows(path, partitioning=None)
    path.unlink()
    row = {name: pa.repeat(table[name][1], 2000) for name in schema.ARROW.names}
    row["name"] = pa.repeat("x" * 2000, 2000)
    with pq.ParquetWriter(path, schema.ARROW, compression="zstd", use_dictionary=False) as writer:
        writer.write_table(table.slice(0, 1).cast(schema.ARROW))
        writer.write_table(pa.table(row).cast(schema.ARROW))
    lower_footer(path)
    found = look(tmp_path)
    assert isinstance(found, LeftOut)
    assert (found.reason.value, "unpacks to" in found.why) == ("values", True)


def test_texts_that_are_packed_by_what_they_repeat_are_not_unpacked(tmp_path):
    path = survey(tmp_path)
    table = read_rows(path, partitioning=None)
    encoding = {"column_encoding": {"name": "DELTA_BYTE_ARRAY"}, "use_dictionary": False}
    pq.write_table(table, path, **encoding)
    found = look(tmp_path)
    assert isinstance(found, LeftOut)
    assert (found.reason.value, found.why) == ("values", "name is packed as no survey's is")


def test_bytes_of_chance_in_headers_end_in_words(tmp_path):
    path = survey(tmp_path)
    whole = path.read_bytes()
    group = pq.read_metadata(path).row_group(0)
    starts = [group.column(at).data_page_offset for at in range(group.num_columns)]
    chance, refused = random.Random(1), 0
    for _ in range(300):
        data = bytearray(whole)
        start = chance.choice(starts)
        for _ in range(chance.randint(1, 8)):
            data[start + chance.randrange(24)] = chance.randrange(256)
        path.write_bytes(data)
        with pa.OSFile(str(path)) as file:
            try:
                pages.unpacked(file, group, {*schema.COLUMNS})
            except (pages.PageError, pages.UnlikeError):
                refused += 1
        assert isinstance(look(tmp_path), (FileContents, LeftOut))
    assert refused > 50
