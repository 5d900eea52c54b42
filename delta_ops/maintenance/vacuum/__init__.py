"""Vacuum: `facts` describes files, `plan` chooses files to delete, `act` deletes them.

`commits` records the vacuum in the table's history.
"""
