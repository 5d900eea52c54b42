"""Revert: `plan` finds what undoes one commit, `act` commits it."""
