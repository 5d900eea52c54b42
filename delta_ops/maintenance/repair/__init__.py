"""Repair: `plan` finds what is wrong with the files of a table, `act` cures what can be cured."""
