"""From which NUMA nodes a container has its memory."""
