package main

import (
	"github.com/go-logr/logr"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/utils/cpuset"

	_ "unsafe" // for linkname
)

//go:linkname takeByTopologyNUMAPacked k8s.io/kubernetes/pkg/kubelet/cm/cpumanager.takeByTopologyNUMAPacked
func takeByTopologyNUMAPacked(logger logr.Logger, topo *topology.CPUTopology, available cpuset.CPUSet, count int, strategy cpumanager.CPUSortingStrategy, byCache bool) (cpuset.CPUSet, error)

//go:linkname takeByTopologyNUMADistributed k8s.io/kubernetes/pkg/kubelet/cm/cpumanager.takeByTopologyNUMADistributed
func takeByTopologyNUMADistributed(logger logr.Logger, topo *topology.CPUTopology, available cpuset.CPUSet, count int, group int, strategy cpumanager.CPUSortingStrategy) (cpuset.CPUSet, error)
