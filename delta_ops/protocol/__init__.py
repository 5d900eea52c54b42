"""The Delta format as values: actions, names, schemas, statistics, predicates. No I/O."""
