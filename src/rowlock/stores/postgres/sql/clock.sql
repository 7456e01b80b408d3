-- What the server's clock says at this moment. Locks nothing.
SELECT clock_timestamp();
