"""Log clean-up: `plan` chooses the files of the log to delete, `act` deletes them."""
