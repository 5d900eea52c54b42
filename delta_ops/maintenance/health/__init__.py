"""Health: `figures` measures a table by its log, `findings` compares figures with thresholds."""
