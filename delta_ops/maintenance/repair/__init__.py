"""Repair: `plan` finds faults in a table's files, `act` repairs faults and reports the others."""
