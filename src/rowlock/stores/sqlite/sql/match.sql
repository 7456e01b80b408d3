-- Of these jobs those whose payload has these fields, newest first, as `fits` tells: a
-- function of ours, since SQLite's own round what is past 63 bits, and name no field
-- that JSON escapes. By id only. Locks nothing.
SELECT id FROM rowlock_rows NOT INDEXED
WHERE id IN (SELECT value FROM json_each(:ids)) AND rowlock_fits(payload, :fields)
ORDER BY id DESC;
