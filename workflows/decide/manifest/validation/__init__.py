"""The rules of ValidatePodCreate."""
