"""What a location's URL may say, and what is answered when it says something else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.engines import open_engines
from seamark.errors import InvalidLocation

INSTEAD = (
    "a location never carries secrets: take it out and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the "
    "environment, or use the cloud's own credential chain"
)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "ftp://somewhere/x",
            "location 'ftp://somewhere/x': no engine has the scheme 'ftp'; known are mem:NAME, disk:PATH, "
            "s3://BUCKET/PREFIX?endpoint=URL&region=NAME&grace=SECONDS",
        ),
        (
            "just-a-path",
            "location 'just-a-path': no engine has the scheme 'just-a-path'; known are mem:NAME, disk:PATH, "
            "s3://BUCKET/PREFIX?endpoint=URL&region=NAME&grace=SECONDS",
        ),
        (
            "s3://b/p?endpiont=http://x",
            "location s3://b/p?endpiont=http://x: the s3 engine has no option 'endpiont'; "
            "known are endpoint, region, grace",
        ),
        ("mem:x?a=1", "location mem:x?a=1: the mem engine has no option 'a'; it has none"),
        ("mem:", "location mem:: the mem engine needs a name: write mem:NAME"),
        (
            "disk://tmp/x",
            "location disk://tmp/x: the disk engine needs a path after its colon: "
            "write disk:PATH, or disk:///PATH for an absolute one",
        ),
        ("disk:x?segment=no", "location disk:x?segment=no: segment='no' is not a number from 1 up"),
        ("disk:x?segment=0", "location disk:x?segment=0: segment='0' is not a number from 1 up"),
        ("disk:x#y", "location disk:x#y: '#y' means nothing here; leave it out"),
        (
            "s3://key:hunter2@bucket/p",
            f"the s3 location has a user or password before '@'; {INSTEAD}",
        ),
        (
            "postgres://me:hunter2@host/db",
            f"the postgres location has a user or password before '@'; {INSTEAD}",
        ),
        (
            "s3://b/p?secret_access_key=hunter2",
            f"the s3 location has a secret in its option 'secret_access_key'; {INSTEAD}",
        ),
        (
            "s3://b/p?endpoint=http://me:hunter2@127.0.0.1:9000",
            f"the s3 location has a user or password before '@' in its option 'endpoint'; {INSTEAD}",
        ),
        ("s3:///p", "location s3:///p: the s3 engine needs a bucket: write s3://BUCKET/PREFIX"),
        ("s3://b/p?grace=0", "location s3://b/p?grace=0: grace='0' is not a number from 1 up"),
    ],
)
def test_a_wrong_location_is_refused_with_what_would_be_right(url: str, message: str) -> None:
    with pytest.raises(InvalidLocation) as caught:
        open_engines(url)
    assert str(caught.value) == message
    assert "hunter2" not in str(caught.value)


def test_options_may_come_apart_from_the_url_but_not_twice(tmp_path: Path) -> None:
    open_engines(f"disk:{tmp_path}", {"segment": "4096"}).close()
    with pytest.raises(InvalidLocation, match="option segment is given twice, as '1' and as '2'; give it once"):
        open_engines(f"disk:{tmp_path}?segment=1", {"segment": "2"})
    with pytest.raises(InvalidLocation, match="has no option 'fast'; known are segment"):
        open_engines(f"disk:{tmp_path}", {"fast": "yes"})


def test_opening_a_location_writes_nothing(tmp_path: Path) -> None:
    opened = open_engines(f"disk:{tmp_path / 'new'}")
    assert opened.logs.open("a").head() == 0
    assert list(opened.blobs.list()) == []
    opened.blobs.delete("x")
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_stays_where_it_was_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened = open_engines("disk:here")
    monkeypatch.chdir("/")
    opened.blobs.put("k", b"x")
    assert open_engines(f"disk://{tmp_path}/here").blobs.get("k") == b"x"


def test_one_name_in_memory_is_one_store() -> None:
    open_engines("mem:shared").blobs.put("k", b"x")
    assert open_engines("mem:shared").blobs.get("k") == b"x"
    assert list(open_engines("mem:another").blobs.list()) == []


def test_importing_the_engines_loads_no_engine() -> None:
    code = (
        "import sys, seamark.engines\n"
        "heavy = {'boto3', 'botocore', 'pyarrow', 'seamark.engines.disk', 'seamark.engines.s3'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_boto3_the_s3_engine_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "boto3.py").write_text("raise ModuleNotFoundError(\"No module named 'boto3'\", name='boto3')")
    code = (
        "from seamark.engines import open_engines\n"
        "try: open_engines('s3://bucket/prefix')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True
    )
    assert done.stdout.decode().strip() == (
        "InvalidLocation location s3://bucket/prefix: the s3 engine needs boto3, which is not installed: "
        "pip install seamark[s3]"
    )
