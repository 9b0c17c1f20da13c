"""The rules of the API's ValidatePodCreate."""
