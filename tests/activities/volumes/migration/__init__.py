"""Tests of the translation of volumes of clouds."""
