#!/usr/bin/env bash
# Makes .venv what requirements.lock says, with this project installed in place. Does nothing when it is so already.
# The stamp is written last: an interrupted run is simply done again.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'venv: %s\n' "$*" >&2; }
fail() { printf 'venv: error: %s\n' "$*" >&2; exit 1; }

stamp=.venv/seamark.stamp
wanted=$(cat requirements.lock pyproject.toml tools/venv.sh <(pwd) | cksum)
current() { [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; }
current && exit 0

if command -v flock >/dev/null; then
    exec 9<. # the lock is on the folder itself, so no file is left behind
    flock -n 9 || { say "another process is making it, waiting"; flock 9; }
    current && exit 0
fi

recent='import sys; sys.exit(sys.version_info < (3, 11))'
usable='import ensurepip, venv'

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3 /usr/bin/python3; do
        if "$candidate" -c "$recent" 2>/dev/null && "$candidate" -c "$1" 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
}

if ! .venv/bin/python -c "$recent; import pip" 2>/dev/null; then
    python=$(find_python "$usable")
    if [ -z "$python" ]; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            say "no Python 3.11 or later with venv; apt-get install python3-venv"
            apt-get -q update >&2
            DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install python3 python3-venv >&2
            python=$(find_python "$usable")
        fi
        [ -n "$python" ] || fail "Python 3.11 or later with the module venv was not found" \
            "(looked for \$PYTHON, python3.11, python3.12, python3.13, python3);" \
            "install it (Debian and Ubuntu: sudo apt-get install python3 python3-venv) or set PYTHON"
    fi
    say "1/3 creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi

say "2/3 installing what requirements.lock pins (about a minute the first time)"
if ! .venv/bin/uv --version 2>/dev/null | grep -qF "$(sed -n 's/^uv==\([^ ]*\).*/uv \1 /p' requirements.lock)"; then
    awk '/^[a-z]/ { wanted = /^uv==/ } wanted' requirements.lock >.venv/uv.txt
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.txt
fi
export VIRTUAL_ENV="$PWD/.venv"
while sleep 5 && kill -0 $$ 2>/dev/null; do say "2/3 … $SECONDS s"; done 9<&- &
ticker=$!
trap 'kill "$ticker" 2>/dev/null || true' EXIT
.venv/bin/uv pip sync --quiet --require-hashes --build-constraints requirements.lock requirements.lock
kill "$ticker"

say "3/3 installing seamark in place"
.venv/bin/uv pip install --quiet --no-deps --no-build-isolation --offline -e .

printf '%s\n' "$wanted" >"$stamp"
say "ready"
