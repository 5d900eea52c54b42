"""Publishing audited assets: which checks have passed, and the asset that publishes."""
