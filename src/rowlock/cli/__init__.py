"""
The command line: one file a group of commands, each no more than a user of the API.

What is data goes to stdout, what is talk to stderr, so that a pipe gets only the data.
"""
