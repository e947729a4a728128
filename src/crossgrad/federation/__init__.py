"""Agents of different organisations: links between sites, agreement on who takes part in a step, journals, replay."""
