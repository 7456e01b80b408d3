-- Makes the schema, where it is missing. Locks its name.
CREATE SCHEMA IF NOT EXISTS {schema};
