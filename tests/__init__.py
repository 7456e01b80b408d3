"""The proofs: `unit` for what is pure, `conformance` for the laws on every store."""
