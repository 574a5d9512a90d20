"""Runs one command and writes down how it ended, also when whoever asked for it is gone by then.

Started as `python local_supervisor.py FOLDER` in a session of its own; standard library only, because it
stays for as long as the run does. The lock is inherited by the command: it is held for as long as either lives,
which is how a run is known to live and why the same run is never started twice.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def main(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    if (folder / "pid").exists() or (folder / "exit").exists():
        return 0
    command = json.loads((folder / "run.json").read_text())["command"]
    # The whole group is signalled when the run is stopped; the supervisor stays to write down how it ended.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write(folder / "pid", str(os.getpid()))
    with (folder / "stdout").open("ab") as out, (folder / "stderr").open("ab") as err:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=(lock,),
                preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),
            )
            code = child.wait()
        except OSError as error:
            err.write(f"{error}\n".encode())
            code = 127
    write(folder / "exit", json.dumps({"code": code}))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
