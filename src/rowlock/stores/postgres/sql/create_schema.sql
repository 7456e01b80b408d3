-- Makes the schema, which is found missing. Locks its name.
CREATE SCHEMA {schema};
