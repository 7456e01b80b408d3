"""What the type checkers read, as users write it."""
