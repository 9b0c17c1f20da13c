"""A booted machine passes official tests as a node: containerd 2 with the systemd driver, and kubeadm's configuration unedited."""
