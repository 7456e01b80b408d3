"""
The worker: five loops around a store.

Fetch claims, execute runs handlers, finish writes outcomes, renew extends leases from
a thread of its own, upkeep recovers and prunes. `worker` owns them and their order of
stopping.
"""
