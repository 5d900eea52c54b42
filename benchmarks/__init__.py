"""Benchmarks, each with a peer on the same input in the same run; reports are beside them."""
