"""
Real workers, killed, stopped and cut off from their database for minutes on end.

`app` is what they run, `produce` enqueues it, `crowd` keeps their processes, and
`weather` is what befalls them. Each of them writes a journal outside of the database;
when everything has drained, `history` reads it and `verdict`, `causes` and `promises`
judge it against the rows.

    python -m tests.torture --minutes 10 --store postgres --seed 17
"""
