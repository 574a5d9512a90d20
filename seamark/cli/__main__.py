"""`python -m seamark.cli` is the command `seamark`."""

from seamark.cli.main import main

main()
