"""`python -m tests.components ensure [NAMES]` gets components; `list` says which are there."""

from __future__ import annotations

import argparse
import sys

from tests.components import COMPONENTS, NEEDED_TO_TEST, ComponentError, cache, describe
from tests.components.golang import KUBERNETES, MINIO
from tests.components.record import Component


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.components", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    ensure = verbs.add_parser("ensure", help="get the named components, or all that the tests need")
    ensure.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMPONENTS))
    verbs.add_parser("list", help="print what is built in the cache folder")
    asked = parser.parse_args()
    if asked.verb == "list":
        print(f"cache folder: {cache.root()}")
        for recipe in (MINIO, KUBERNETES):
            state = "built" if (cache.root() / recipe.key).is_dir() else "not built"
            print(f"  {recipe.key:60} {state}")
        return 0
    try:
        for name in asked.names or NEEDED_TO_TEST:
            show(describe(name))
    except ComponentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; nothing half built is left, run it again to go on", file=sys.stderr)
        return 130
    return 0


def show(component: Component) -> None:
    print(f"  {component.name:12} {component.version:40} {component.origin:12} {component.path}")


if __name__ == "__main__":
    sys.exit(main())
