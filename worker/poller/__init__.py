"""The poller: keeps pod workflows in step with the pods listed for this node and with the runtime. See README.md."""
