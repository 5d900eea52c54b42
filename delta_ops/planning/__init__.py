"""Planning: choose the files that a read, a replacement or a change feed opens.

Pruning by statistics and partition values is pure, and is in `log.version.pruning`.
"""
