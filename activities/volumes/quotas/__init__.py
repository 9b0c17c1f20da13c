"""Project quotas, by which the kernel counts what an emptyDir takes."""
