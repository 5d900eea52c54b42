"""Example pipelines to read and to copy from; the package does not contain them."""
