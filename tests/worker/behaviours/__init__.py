"""The room of numbered behaviours."""
