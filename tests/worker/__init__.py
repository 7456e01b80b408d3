"""One worker in this process, at a time that the test moves."""
