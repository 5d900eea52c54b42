"""Scan cache: the live files of one version, ordered, so that a plan reads only a part of them."""
