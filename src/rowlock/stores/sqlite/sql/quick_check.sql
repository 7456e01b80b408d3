-- `ok` where the file is whole, else its first fault. Reads all of it, but compares no
-- index with its table. Locks nothing that a writer needs; the log isn't copied meanwhile.
PRAGMA quick_check(1);
