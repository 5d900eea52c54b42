"""The Spark session: settings, variables, jobs and failures."""
