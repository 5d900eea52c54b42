"""Swap-in: other integrations' classes and metadata names, on our own IO manager.

A module for each package, with the names that its documentation imports, so that code changes by an
import only. All of them are thin: what they are given is put into the words of `DeltaIOManager`,
which does everything else. What asks for something that is not done here is refused by a sentence,
and never left out in silence. `docs/coming-from-others.md` lists both.
"""
