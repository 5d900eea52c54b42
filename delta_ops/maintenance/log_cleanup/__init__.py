"""Log clean-up: `plan` decides which files of the log go, `act` deletes them."""
