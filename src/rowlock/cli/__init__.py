"""
The command line: one file a group of commands, none of them more than a caller of the
public API.

What is data goes to stdout, what is talk to stderr, so that a pipe gets only the data.
"""
