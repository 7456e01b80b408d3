-- Subscribes this connection to news. Locks nothing.
LISTEN {channel};
