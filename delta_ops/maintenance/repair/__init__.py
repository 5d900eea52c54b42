"""Repair: `plan` finds faults in the files of a table, `act` repairs some of them."""
