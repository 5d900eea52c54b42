"""Values of users, literals and partition values."""
