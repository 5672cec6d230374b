"""Tests of the stored nights and of the site."""
