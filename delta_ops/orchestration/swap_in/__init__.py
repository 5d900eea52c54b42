"""Swap-in: classes and metadata names of other integrations, on top of our IO manager.

Each module has the names that the documentation of one package imports, so users change only an
import. The modules translate settings to settings of `DeltaIOManager`, which does the work. An
unsupported setting is an error and is never ignored. `docs/coming-from-others.md` lists supported
and unsupported settings.
"""
