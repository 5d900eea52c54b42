"""`python -m delta_ops.cli`."""

from delta_ops.cli.entry import main

main()
