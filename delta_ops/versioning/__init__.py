"""Versioning: names for versions of a table, which vacuum and log clean-up keep.

Tags are stored beside the log, in `_delta_ops/refs`; other engines neither see nor need them.
"""

from delta_ops.log.refs.refs import Tag
from delta_ops.versioning.tags import create_tag, delete_tag, list_tags

__all__ = ["Tag", "create_tag", "delete_tag", "list_tags"]
