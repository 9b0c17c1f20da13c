"""The files of configMap, secret, downwardAPI and projected volumes."""
