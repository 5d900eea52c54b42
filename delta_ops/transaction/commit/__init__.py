"""Commits: a draft becomes a proposal, the loop creates its version, and hooks follow."""
