"""Health: `figures` are measured in one pass over the log, `act` judges them by thresholds."""
