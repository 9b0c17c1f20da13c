"""Computed amounts of a resource, formatted as the API does.

Used for sums by defaulting and validation: cpu in cores or milli-CPU, memory and huge pages with binary suffixes.
"""

from proto.kubernetes.resources.quantity import Quantity, canonical_quantity


def format_amount(name: str, amount: Quantity) -> str:
    """Format an amount: 1500m, 2, 200Mi."""
    if name == "cpu":
        return canonical_quantity(f"{amount.milli}m")
    return canonical_quantity(f"{amount.value // 1024}Ki") if amount.value % 1024 == 0 else str(amount.value)
