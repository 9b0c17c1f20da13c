package main

import (
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	_ "k8s.io/kubernetes/pkg/kubelet/apis/config/validation"

	_ "unsafe" // for linkname
)

//go:linkname validateReservedMemoryConfiguration k8s.io/kubernetes/pkg/kubelet/apis/config/validation.validateReservedMemoryConfiguration
func validateReservedMemoryConfiguration(configuration *kubeletconfig.KubeletConfiguration) []error
