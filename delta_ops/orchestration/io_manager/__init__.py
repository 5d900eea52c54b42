"""Stores assets as Delta tables and loads them as inputs."""
