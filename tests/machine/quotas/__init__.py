"""Project quotas, on a kernel that has them."""
