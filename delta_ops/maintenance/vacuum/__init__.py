"""Vacuum: `facts` describe the files, `plan` chooses some, `act` deletes, `commits` logs it."""
