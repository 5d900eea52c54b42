"""Remote storage: stores that fsspec reaches, by the calls that all of them share."""
