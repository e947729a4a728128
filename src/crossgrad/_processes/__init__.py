"""The processes of a run: start, collective operations, heartbeats."""
