"""
A Postgres for tests, benchmarks (`python -m tests.cluster`) and developers.

`binaries` finds one, `server` starts it, `keeper` is its parent and ends it,
`membership` shares it between the processes of a session, `databases` clones one for
each of them.

Nothing is left behind. Whoever uses a cluster holds a shared lock on its `members`
file, which the kernel takes back however the process ends. The server's parent, the
keeper, waits for the exclusive lock; when it has it, nobody is in, and it ends the
server and removes its directory. Where the keeper was killed as well, or not there
yet, the next start does so.
"""
