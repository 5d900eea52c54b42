"""Benchmarks: each beside a peer on the same input in the same run; reports lie beside them."""
