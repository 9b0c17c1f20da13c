"""Who may use the node's API: TLS, authentication, authorization."""
