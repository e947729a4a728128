"""Tables and pictures; they read records only."""
