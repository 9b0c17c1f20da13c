"""Tests of activities/image_access/."""
