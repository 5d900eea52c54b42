"""Purge: `plan` chooses files to rewrite for their content, `act` rewrites them."""
