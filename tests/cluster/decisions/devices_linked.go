package main

import (
	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"

	_ "unsafe" // for linkname
)

//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(logger logr.Logger, socket string, nodes []cadvisorapi.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)
