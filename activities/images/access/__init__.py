"""Who may use an image: pulls with credentials and the records of them."""
