"""Planning: which files a read or a replacement opens.

Pruning by statistics and partition values is pure and lies below, in `log.pruning`.
"""
