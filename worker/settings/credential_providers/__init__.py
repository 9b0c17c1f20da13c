"""CredentialProviderConfig."""
