# SPDX-License-Identifier: GPL-2.0-or-later
"""PLACE in an object store that speaks S3, here a moto server of this machine."""

from __future__ import annotations

import json
import os
import sys

import pytest
from pyarrow import fs

from made import Machine, Owner, program, write
from zmeld_fleet import cli, places

BUCKET = "surveys"


@pytest.fixture(scope="module")
def store():
    server = pytest.importorskip("moto.server")
    with pytest.MonkeyPatch.context() as patched:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patched.setenv(name, "testing")
        patched.setenv("AWS_DEFAULT_REGION", "us-east-1")
        running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        running.start()
        host, port = running.get_host_and_port()
        patched.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        yield
        running.stop()


def upload(folder, prefix):
    files = fs.S3FileSystem(
        endpoint_override=os.environ["AWS_ENDPOINT_URL"], allow_bucket_creation=True
    )
    files.create_dir(BUCKET)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            target = f"{BUCKET}/{prefix}/{path.relative_to(folder)}"
            with files.open_output_stream(target) as stream:
                stream.write(path.read_bytes())


@pytest.mark.long
def test_a_report_from_s3_is_that_from_the_folder(store, tmp_path, capsys):
    for at in range(4):
        owners = [Owner("nginx", program("nginx", 900, 100)), Owner("o", program(at, 300))]
        write(tmp_path, Machine(f"host{at}", owners, {"role": "web"}))
    broken = next(iter(tmp_path.rglob("*.parquet")))
    (broken.parent / "broken.parquet").write_bytes(broken.read_bytes()[:-70])
    (broken.parent / ".on-its-way.parquet").write_bytes(b"PAR1")
    upload(tmp_path, "production")
    said = []
    for place in (str(tmp_path), f"s3://{BUCKET}/production"):
        assert cli.main(["report", place, "--json"]) == 0
        body = json.loads(capsys.readouterr().out)
        assert [left["reason"] for left in body["left_out"]] == ["truncated"]
        del body["place"], body["left_out"]
        said.append(body)
    assert said[0] == said[1] and said[0]["machines"] == 4


@pytest.mark.long
@pytest.mark.parametrize("place", [f"s3://{BUCKET}/nothing", "s3://no-such-bucket/x"])
def test_a_store_without_surveys_is_one_line(store, capsys, place):
    assert cli.main(["report", place]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="Azure's file system is built for Linux")
def test_other_schemes_are_opened_or_said_to_be_wrong(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert places.open_place("az://container/prefix/").root == "container/prefix"
    assert places.open_place("gs://anonymous@bucket/prefix/").root == "bucket/prefix"
    with pytest.raises(places.PlaceError):
        places.open_place("ftp://host/surveys")


def test_a_secret_in_a_url_is_not_shown():
    place = "s3://KEY:se/cret@bucket/p?region=us-east-1&x=a@b"
    with pytest.raises(places.PlaceError) as error:
        places.open_place("ftp" + place[2:])
    assert "cret" not in str(error.value) and "bucket/p" in str(error.value)
    opened = places.open_place("s3://KEY:secret@bucket/p?region=us-east-1")
    assert opened.shown == "s3://bucket/p?region=us-east-1"
