package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

type listedDevice struct {
	ID      string  `json:"id"`
	Healthy bool    `json:"healthy"`
	Nodes   []int64 `json:"nodes"`
}

type deviceStep struct {
	Do         string           `json:"do"`
	Resource   string           `json:"resource"`
	Devices    []listedDevice   `json:"devices"`
	Pod        *v1.Pod          `json:"pod"`
	Affinities map[string][]int `json:"affinities"`
}

type devicesCase struct {
	Nodes []int `json:"nodes"`
	// Prefers has the number of devices by which a plugin's preference is too short; without an entry it has none.
	Prefers map[string]int                                  `json:"prefers"`
	Answers map[string]*pluginapi.ContainerAllocateResponse `json:"answers"`
	Steps   []deviceStep                                    `json:"steps"`
}

type deviceHint struct {
	Nodes     []int `json:"nodes"`
	Preferred bool  `json:"preferred"`
}

type containerAnswer struct {
	Name    string                                   `json:"name"`
	Hints   map[string][]deviceHint                  `json:"hints"`
	Error   string                                   `json:"error"`
	Has     map[string]map[string][]int64            `json:"has"`
	Options *devicemanager.DeviceRunContainerOptions `json:"options"`
	Status  []v1.ResourceStatus                      `json:"status"`
}

type deviceAnswer struct {
	PodHints    map[string][]deviceHint `json:"podHints"`
	Containers  []containerAnswer       `json:"containers"`
	Capacity    v1.ResourceList         `json:"capacity"`
	Allocatable v1.ResourceList         `json:"allocatable"`
	Text        string                  `json:"text"`
}

// somePlugin answers as a plugin that prefers the first devices.
type somePlugin struct {
	pluginapi.DevicePluginClient
	resource string
	tooFew   int
	prefers  bool
	answer   *pluginapi.ContainerAllocateResponse
}

func (p *somePlugin) API() pluginapi.DevicePluginClient { return p }
func (p *somePlugin) Resource() string                  { return p.resource }
func (p *somePlugin) SocketPath() string                { return "" }

func (p *somePlugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: p.prefers}, nil
}

func (p *somePlugin) GetPreferredAllocation(_ context.Context, asked *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	one := asked.ContainerRequests[0]
	preferred := sets.List(sets.New(one.MustIncludeDeviceIDs...))
	others := sets.List(sets.New(one.AvailableDeviceIDs...).Difference(sets.New(preferred...)))
	number := int(one.AllocationSize) - p.tooFew
	for _, device := range others {
		if len(preferred) < number {
			preferred = append(preferred, device)
		}
	}
	return &pluginapi.PreferredAllocationResponse{ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: preferred}}}, nil
}

func (p *somePlugin) Allocate(context.Context, *pluginapi.AllocateRequest, ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{p.answer}}, nil
}

// hintStore is a topology manager that has the hint of the next container.
type hintStore struct{ hint topologymanager.TopologyHint }

func (s *hintStore) GetAffinity(string, string) topologymanager.TopologyHint { return s.hint }
func (s *hintStore) GetPolicy() topologymanager.Policy                       { return topologymanager.NewNonePolicy() }
func (s *hintStore) Name() string                                            { return "container" }

// answerDevices walks through the steps of one node with the kubelet's device manager.
func answerDevices(line []byte) (any, error) {
	var asked devicesCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "devices")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	nodes := []cadvisorapi.Node{}
	for _, id := range asked.Nodes {
		nodes = append(nodes, cadvisorapi.Node{Id: id})
	}
	logger, store, active := logr.Discard(), &hintStore{}, map[string]*v1.Pod{}
	manager, err := newDeviceManager(logger, filepath.Join(folder, "kubelet.sock"), nodes, store)
	if err != nil {
		return nil, err
	}
	pods := func() []*v1.Pod {
		found := []*v1.Pod{}
		for _, pod := range active {
			found = append(found, pod)
		}
		return found
	}
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	if err := manager.Start(logger, pods, ready, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return nil, err
	}
	defer manager.Stop(logger)
	known, refused, answers := map[string]bool{}, map[string]bool{}, []deviceAnswer{}
	for _, step := range asked.Steps {
		var answer deviceAnswer
		switch step.Do {
		case "list":
			if !known[step.Resource] {
				tooFew, prefers := asked.Prefers[step.Resource]
				plugin := &somePlugin{resource: step.Resource, tooFew: tooFew, prefers: prefers, answer: asked.Answers[step.Resource]}
				if err := manager.PluginConnected(context.Background(), step.Resource, plugin); err != nil {
					return nil, err
				}
				known[step.Resource] = true
			}
			manager.PluginListAndWatchReceiver(logger, step.Resource, &pluginapi.ListAndWatchResponse{Devices: listedDevices(step.Devices)})
		case "gone":
			manager.PluginDisconnected(logger, step.Resource)
			delete(known, step.Resource)
		case "drop":
			delete(active, string(step.Pod.UID))
		case "admit":
			if refused[string(step.Pod.UID)] { // a refused pod is never admitted again
				break
			}
			active[string(step.Pod.UID)] = step.Pod
			answer.PodHints = writtenHints(manager.GetPodTopologyHints(step.Pod))
			if answer.Containers, err = admittedWithDevices(manager, store, step); err != nil {
				return nil, err
			}
			if last := answer.Containers[len(answer.Containers)-1]; last.Error != "" {
				delete(active, string(step.Pod.UID))
				refused[string(step.Pod.UID)] = true
			}
		default:
			return nil, fmt.Errorf("unknown step %q", step.Do)
		}
		answer.Capacity, answer.Allocatable, _ = manager.GetCapacity()
		text, err := os.ReadFile(filepath.Join(folder, "kubelet_internal_checkpoint"))
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		answer.Text = string(text)
		answers = append(answers, answer)
	}
	return map[string]any{"steps": answers}, nil
}

func admittedWithDevices(manager *devicemanager.ManagerImpl, store *hintStore, step deviceStep) ([]containerAnswer, error) {
	answers := []containerAnswer{}
	containers := append(append([]v1.Container{}, step.Pod.Spec.InitContainers...), step.Pod.Spec.Containers...)
	for _, container := range containers {
		one := containerAnswer{Name: container.Name, Hints: writtenHints(manager.GetTopologyHints(step.Pod, &container))}
		store.hint = topologymanager.TopologyHint{}
		if nodes := step.Affinities[container.Name]; nodes != nil {
			mask, err := bitmask.NewBitMask(nodes...)
			if err != nil {
				return nil, err
			}
			store.hint.NUMANodeAffinity = mask
		}
		if err := manager.Allocate(step.Pod, &container); err != nil {
			one.Error = err.Error()
			return append(answers, one), nil
		}
		one.Has = map[string]map[string][]int64{}
		for resource, devices := range manager.GetDevices(string(step.Pod.UID), container.Name) {
			one.Has[resource] = map[string][]int64{}
			for id, device := range devices {
				nodes := []int64{}
				for _, node := range device.GetTopology().GetNodes() {
					nodes = append(nodes, node.ID)
				}
				sort.Slice(nodes, func(i, j int) bool { return nodes[i] < nodes[j] })
				one.Has[resource][id] = nodes
			}
		}
		options, err := manager.GetDeviceRunContainerOptions(context.Background(), step.Pod, &container)
		if err != nil {
			return nil, err
		}
		one.Options = options
		status := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: container.Name}}}
		manager.UpdateAllocatedResourcesStatus(step.Pod, status)
		one.Status = status.ContainerStatuses[0].AllocatedResourcesStatus
		answers = append(answers, one)
	}
	return answers, nil
}

func listedDevices(devices []listedDevice) []*pluginapi.Device {
	listed := []*pluginapi.Device{}
	for _, one := range devices {
		device := &pluginapi.Device{ID: one.ID, Health: pluginapi.Unhealthy}
		if one.Healthy {
			device.Health = pluginapi.Healthy
		}
		if len(one.Nodes) > 0 {
			device.Topology = &pluginapi.TopologyInfo{}
			for _, node := range one.Nodes {
				device.Topology.Nodes = append(device.Topology.Nodes, &pluginapi.NUMANode{ID: node})
			}
		}
		listed = append(listed, device)
	}
	return listed
}

// writtenHints has null for a resource without a preference.
func writtenHints(found map[string][]topologymanager.TopologyHint) map[string][]deviceHint {
	shown := map[string][]deviceHint{}
	for resource, hints := range found {
		if hints == nil {
			shown[resource] = nil
			continue
		}
		shown[resource] = []deviceHint{}
		for _, hint := range hints {
			shown[resource] = append(shown[resource], deviceHint{hint.NUMANodeAffinity.GetBits(), hint.Preferred})
		}
	}
	return shown
}
