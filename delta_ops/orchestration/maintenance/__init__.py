"""Maintenance jobs, schedules and sensors."""
