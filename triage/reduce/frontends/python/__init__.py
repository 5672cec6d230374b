"""Passes over Python syntax trees."""
