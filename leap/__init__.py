"""Leap."""
