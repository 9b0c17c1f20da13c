//go:build tools

// Package tools pins the program that build.sh builds.
package tools

import _ "k8s.io/kubernetes/cmd/kubelet"
