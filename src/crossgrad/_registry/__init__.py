"""What can be named in experiment files: built in, registered by a plug-in file or from Python, or installed."""
