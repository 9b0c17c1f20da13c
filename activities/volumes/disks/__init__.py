"""Block devices: attached, formatted, mounted."""
