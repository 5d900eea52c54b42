"""Revert: `plan` finds the changes that undo one commit, `act` commits them."""
