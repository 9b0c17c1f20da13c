package main

import (
	"context"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	_ "k8s.io/kubernetes/pkg/kubelet/nodeshutdown"
)

// The kubelet's own functions, which it does not export. linked.s is empty: with it the compiler accepts functions without a body.

type statsFunc = func(pod *v1.Pod) (statsapi.PodStats, bool)

//go:linkname rankMemoryPressure k8s.io/kubernetes/pkg/kubelet/eviction.rankMemoryPressure
func rankMemoryPressure(pods []*v1.Pod, stats statsFunc)

//go:linkname rankPIDPressure k8s.io/kubernetes/pkg/kubelet/eviction.rankPIDPressure
func rankPIDPressure(pods []*v1.Pod, stats statsFunc)

//go:linkname rankDiskPressureFunc k8s.io/kubernetes/pkg/kubelet/eviction.rankDiskPressureFunc
func rankDiskPressureFunc(measured []string, resource v1.ResourceName) func(pods []*v1.Pod, stats statsFunc)

//go:linkname synchronize k8s.io/kubernetes/pkg/kubelet/eviction.(*managerImpl).synchronize
func synchronize(manager unsafe.Pointer, ctx context.Context, disks eviction.DiskInfoProvider, pods eviction.ActivePodsFunc) ([]*v1.Pod, error)

//go:linkname groupByPriority k8s.io/kubernetes/pkg/kubelet/nodeshutdown.groupByPriority
func groupByPriority(periods []kubeletconfig.ShutdownGracePeriodByPodPriority, pods []*v1.Pod) []podShutdownGroup

//go:linkname migrateConfig k8s.io/kubernetes/pkg/kubelet/nodeshutdown.migrateConfig
func migrateConfig(whole, critical time.Duration) []kubeletconfig.ShutdownGracePeriodByPodPriority

// implementation returns the pointer inside an interface value.
func implementation(manager eviction.Manager) unsafe.Pointer {
	return (*[2]unsafe.Pointer)(unsafe.Pointer(&manager))[1]
}
