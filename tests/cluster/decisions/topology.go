package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// numaHint is a hint; Nodes is null for any node.
type numaHint struct {
	Nodes     []int `json:"nodes"`
	Preferred bool  `json:"preferred"`
}

// providerHints are the hints of one provider by resource; null for a resource that does not matter.
type providerHints map[string][]numaHint

func (given providerHints) hints() (map[string][]topologymanager.TopologyHint, error) {
	if given == nil {
		return nil, nil
	}
	found := map[string][]topologymanager.TopologyHint{}
	for resource, hints := range given {
		if hints == nil {
			found[resource] = nil
			continue
		}
		found[resource] = []topologymanager.TopologyHint{}
		for _, one := range hints {
			hint, err := one.hint()
			if err != nil {
				return nil, err
			}
			found[resource] = append(found[resource], hint)
		}
	}
	return found, nil
}

func (given numaHint) hint() (topologymanager.TopologyHint, error) {
	hint := topologymanager.TopologyHint{Preferred: given.Preferred}
	if given.Nodes == nil {
		return hint, nil
	}
	mask, err := bitmask.NewBitMask(given.Nodes...)
	hint.NUMANodeAffinity = mask
	return hint, err
}

func writtenHint(hint topologymanager.TopologyHint) numaHint {
	written := numaHint{Preferred: hint.Preferred}
	if hint.NUMANodeAffinity != nil {
		written.Nodes = append([]int{}, hint.NUMANodeAffinity.GetBits()...)
	}
	return written
}

type numaNode struct {
	ID        int      `json:"id"`
	Distances []uint64 `json:"distances"`
}

func cadvisorNodes(given []numaNode) []cadvisorapi.Node {
	nodes := []cadvisorapi.Node{}
	for _, one := range given {
		nodes = append(nodes, cadvisorapi.Node{Id: one.ID, Distances: one.Distances})
	}
	return nodes
}

type mergeCase struct {
	Nodes     []numaNode      `json:"nodes"`
	Policy    string          `json:"policy"`
	Closest   bool            `json:"closest"`
	Providers []providerHints `json:"providers"`
}

// answerMerge merges hints by one policy.
func answerMerge(line []byte) (any, error) {
	var asked mergeCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	options := topologymanager.PolicyOptions{PreferClosestNUMA: asked.Closest}
	machine, err := topologymanager.NewNUMAInfo(cadvisorNodes(asked.Nodes), options)
	if err != nil {
		return nil, err
	}
	var policy topologymanager.Policy
	switch asked.Policy {
	case topologymanager.PolicyNone:
		policy = topologymanager.NewNonePolicy()
	case topologymanager.PolicyBestEffort:
		policy = topologymanager.NewBestEffortPolicy(machine, options)
	case topologymanager.PolicyRestricted:
		policy = topologymanager.NewRestrictedPolicy(machine, options)
	case topologymanager.PolicySingleNumaNode:
		policy = topologymanager.NewSingleNumaNodePolicy(machine, options)
	default:
		return nil, fmt.Errorf("unknown policy %q", asked.Policy)
	}
	var providers []map[string][]topologymanager.TopologyHint
	for _, one := range asked.Providers {
		hints, err := one.hints()
		if err != nil {
			return nil, err
		}
		providers = append(providers, hints)
	}
	hint, admitted := policy.Merge(logr.Discard(), providers)
	return map[string]any{"hint": writtenHint(hint), "admitted": admitted}, nil
}

// topologyProvider gives what the case says and notes for which nodes it is asked.
type topologyProvider struct {
	store      topologymanager.Store
	containers map[string]map[string][]topologymanager.TopologyHint
	pod        map[string][]topologymanager.TopologyHint
	refused    string
	taken      []takenNodes
}

type takenNodes struct {
	Container string   `json:"container"`
	Hint      numaHint `json:"hint"`
}

func (p *topologyProvider) GetTopologyHints(_ *v1.Pod, container *v1.Container) map[string][]topologymanager.TopologyHint {
	return p.containers[container.Name]
}

func (p *topologyProvider) GetPodTopologyHints(*v1.Pod) map[string][]topologymanager.TopologyHint {
	return p.pod
}

func (p *topologyProvider) AllocatePod(*v1.Pod) error {
	return errors.New("the gate PodLevelResourceManagers is off")
}

func (p *topologyProvider) Allocate(pod *v1.Pod, container *v1.Container) error {
	hint := p.store.GetAffinity(string(pod.UID), container.Name)
	p.taken = append(p.taken, takenNodes{Container: container.Name, Hint: writtenHint(hint)})
	if container.Name == p.refused {
		return errors.New("refused")
	}
	return nil
}

type admitCase struct {
	Nodes     []numaNode        `json:"nodes"`
	Policy    string            `json:"policy"`
	Scope     string            `json:"scope"`
	Options   map[string]string `json:"options"`
	Inits     []string          `json:"inits"`
	Apps      []string          `json:"apps"`
	Refused   string            `json:"refused"`
	Providers []struct {
		Containers map[string]providerHints `json:"containers"`
		Pod        providerHints            `json:"pod"`
	} `json:"providers"`
}

// answerAdmit starts a topology manager and admits a pod.
func answerAdmit(line []byte) (any, error) {
	var asked admitCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	manager, err := topologymanager.NewManager(cadvisorNodes(asked.Nodes), asked.Policy, asked.Scope, asked.Options)
	if err != nil {
		return map[string]string{"error": err.Error()}, nil
	}
	var first *topologyProvider
	for _, one := range asked.Providers {
		provider := &topologyProvider{store: manager, containers: map[string]map[string][]topologymanager.TopologyHint{}}
		if provider.pod, err = one.Pod.hints(); err != nil {
			return nil, err
		}
		for name, given := range one.Containers {
			if provider.containers[name], err = given.hints(); err != nil {
				return nil, err
			}
		}
		if first == nil {
			first = provider
			first.refused = asked.Refused
		}
		manager.AddHintProvider(logr.Discard(), provider)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: types.UID("pod")}}
	for _, name := range asked.Inits {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: name})
	}
	for _, name := range asked.Apps {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
	}
	result := manager.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
	return map[string]any{
		"admitted": result.Admit,
		"reason":   result.Reason,
		"message":  result.Message,
		"taken":    first.taken,
	}, nil
}
