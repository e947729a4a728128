"""Messages between agents: what is sent to whom, over which transport, and how many bytes it takes."""
