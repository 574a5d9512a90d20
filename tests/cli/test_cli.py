"""The command line as a user meets it: help that teaches, JSON for machines, exit codes that mean something."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import seamark
from seamark.storage import Collection, parse_definition

SPEC = {
    "source": {"files": {"path": "./orders"}, "fields": [{"name": "id", "type": "string"}]},
    "columns": [{"name": "id", "type": "string"}],
    "key": ["id"],
}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "seamark.cli", *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A location with one collection: `tea` from time 10 on, `jam` from 20 on."""
    url = f"disk:{tmp_path / 'store'}"
    with seamark.open(url) as place:
        orders = Collection.create(place, "orders", parse_definition(SPEC), owner="test")
        for lower, upper, item in ((0, 11, "tea"), (11, 21, "jam")):
            records = pa.table({"id": [item], "_time": [upper - 1], "_diff": [1]})
            orders.rendition("r1").shards[0].compare_and_append(records, lower, upper)
        orders.advance()
    return url


@pytest.mark.parametrize("words", [(), ("collection",), ("shard",), ("local",), ("collection", "snapshot")])
def test_help_teaches_and_is_no_failure(words: tuple[str, ...]) -> None:
    done = run(*words, "--help")
    assert done.returncode == 0
    assert "Usage: " in done.stdout


def test_a_snapshot_is_printed_as_of_the_time_asked_for(url: str) -> None:
    done = run("collection", "snapshot", "orders", "-l", url, "--as-of", "15", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"id": "tea", "_diff": 1})
    done = run("collection", "snapshot", "orders", "-l", url)
    assert "2 rows as of 20" in done.stdout


def test_machines_get_json_lines(url: str) -> None:
    listed = run("collection", "ls", "-l", url, "--json")
    assert json.loads(listed.stdout) == {
        "collection": "orders", "active": "r1", "since": 0, "upper": 21, "renditions": "r1"
    }  # fmt: skip
    shown = json.loads(run("collection", "show", "orders", "-l", url, "--json").stdout)
    assert shown["renditions"]["r1"]["role"] == "active"
    shards = [json.loads(line) for line in run("shard", "ls", "-l", url, "--json").stdout.splitlines()]
    assert [shard["shard"] for shard in shards] == ["collections/orders/metadata", "collections/orders/r1/0"]


def test_what_is_refused_exits_1_and_says_what_to_do_without_a_traceback(url: str) -> None:
    done = run("collection", "snapshot", "oders", "-l", url)
    assert done.returncode == 1
    assert "collection 'oders' does not exist" in done.stderr
    assert "there are: orders" in done.stderr
    assert "Traceback" not in done.stderr
    early = run("collection", "snapshot", "orders", "-l", url, "--as-of", "99")
    assert early.returncode == 1
    assert "readable up to 21" in early.stderr


def test_wrong_usage_exits_2(url: str) -> None:
    assert run("collection", "snapshot", "orders", "-l", url, "--as-off", "1").returncode == 2
    assert run("collection", "snapshot").returncode == 2
    assert run("nonsense").returncode == 2


def test_a_password_in_a_url_is_refused() -> None:
    done = run("collection", "ls", "-l", "s3://user:hunter2@bucket/prefix")
    assert done.returncode == 1
    assert "hunter2" not in done.stderr
    assert "AWS_ACCESS_KEY_ID" in done.stderr


def test_a_follower_resumes_where_it_was_and_ctrl_c_leaves_nothing_broken(url: str, tmp_path: Path) -> None:
    resume = tmp_path / "resume"
    command = [sys.executable, "-m", "seamark.cli", "collection", "subscribe", "orders", "-l", url]
    follower = subprocess.Popen(
        [*command, "--as-of", "15", "--resume", str(resume)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run in the background ignores SIGINT, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while not (resume.exists() and resume.read_text() == "21"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    follower.send_signal(signal.SIGINT)
    out, _ = follower.communicate(timeout=30)
    assert follower.returncode == 130
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["id"] for line in lines if "id" in line] == ["tea", "jam"]
    with seamark.open(url) as place:
        assert not place.open_shard("collections/orders/metadata").state.leases, "Ctrl-C releases the reader's lease"
    again = run("collection", "subscribe", "orders", "-l", url, "--resume", str(resume), "--timeout", "0.5")
    assert (again.returncode, again.stdout) == (0, "")
