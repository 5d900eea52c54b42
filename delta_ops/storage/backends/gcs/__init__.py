"""Google Cloud Storage."""
