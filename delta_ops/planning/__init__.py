"""Planning: which files a read, a replacement or a feed of changes opens.

Pruning by statistics and partition values is pure and lies below, in `log.pruning`.
"""
