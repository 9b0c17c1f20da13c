"""Tests of project quotas."""
