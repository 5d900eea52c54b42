"""Checkpoints: the state of a version in one place, so that readers need no older commit.

Source: PROTOCOL.md, "Checkpoints".
"""
