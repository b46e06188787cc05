"""Our agents in an environment of your own."""
