"""`python -m rolecraft.cli`, the same as `rolecraft`."""

from rolecraft.cli.main import main

main()
