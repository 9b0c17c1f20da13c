"""The poller: keeps pod workflows in sync with the pods listed for this node and with the runtime. See README.md."""
