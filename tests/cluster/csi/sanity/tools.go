//go:build tools

// Package tools pins the suite that `programs.py` builds.
package tools

import (
	_ "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
)
