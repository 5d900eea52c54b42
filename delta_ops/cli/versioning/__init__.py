"""Commands for tags, branches and releases."""
