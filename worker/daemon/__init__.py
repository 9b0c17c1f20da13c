"""What each daemon process needs: configuration, service notification, health, logs, locks."""
