"""Tests of what is pure: no store, no clock, no sleep."""
