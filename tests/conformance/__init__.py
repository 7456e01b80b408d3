"""The laws of the seam, proved on every store: a store joins by one `StoreCase`."""
