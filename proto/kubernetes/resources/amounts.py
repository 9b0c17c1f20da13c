"""Amounts of a resource that were computed, written as the API writes them.

Asked by defaulting and validation for sums: cpu in cores or thousandths, memory and huge pages in powers of 1024 where they are
whole ones.
"""

from proto.kubernetes.resources.quantity import Quantity, canonical_quantity


def format_amount(name: str, amount: Quantity) -> str:
    """Write an amount: 1500m, 2, 200Mi."""
    if name == "cpu":
        return canonical_quantity(f"{amount.milli}m")
    return canonical_quantity(f"{amount.value // 1024}Ki") if amount.value % 1024 == 0 else str(amount.value)
