-- The databases of a connection: number, name and file. Locks nothing.
PRAGMA database_list;
