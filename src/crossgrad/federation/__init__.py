"""Agents of different organisations: links between sites, who takes part in which step, and repeating it from logs."""
