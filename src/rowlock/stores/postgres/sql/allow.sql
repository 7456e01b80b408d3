-- What the owner of a database runs, so that somebody else can migrate it. Shown, and
-- never run from here; as such it locks nothing.
CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION {user};
