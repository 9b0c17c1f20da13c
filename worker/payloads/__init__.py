"""Values as JSON, before `codec` encrypts them and after it has decrypted them."""
