"""The programs a standalone node needs, fetched where the machine lacks them."""
