package main

import (
	"encoding/json"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/utils/cpuset"
)

// machine is a topology: each CPU is [cpu, NUMA node, socket, core, uncore cache].
type machine struct {
	CPUs    [][5]int `json:"cpus"`
	Cores   int      `json:"cores"`
	Sockets int      `json:"sockets"`
}

func (m machine) topology() *topology.CPUTopology {
	details := topology.CPUDetails{}
	for _, one := range m.CPUs {
		details[one[0]] = topology.CPUInfo{NUMANodeID: one[1], SocketID: one[2], CoreID: one[3], UncoreCacheID: one[4]}
	}
	return &topology.CPUTopology{
		NumCPUs:        len(m.CPUs),
		NumCores:       m.Cores,
		NumSockets:     m.Sockets,
		NumNUMANodes:   details.NUMANodes().Size(),
		NumUncoreCache: details.UncoreCaches().Size(),
		CPUDetails:     details,
	}
}

type takeCase struct {
	Machine   machine `json:"machine"`
	Available []int   `json:"available"`
	Count     int     `json:"count"`
	Group     int     `json:"group"`
	Spread    bool    `json:"spread"`
	ByCache   bool    `json:"byCache"`
}

// answerTake takes CPUs: packed if there is no group.
func answerTake(line []byte) (any, error) {
	var asked takeCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	strategy := cpumanager.CPUSortingStrategyPacked
	if asked.Spread {
		strategy = cpumanager.CPUSortingStrategySpread
	}
	available := cpuset.New(asked.Available...)
	var taken cpuset.CPUSet
	var err error
	if asked.Group == 0 {
		taken, err = takeByTopologyNUMAPacked(logr.Discard(), asked.Machine.topology(), available, asked.Count, strategy, asked.ByCache)
	} else {
		taken, err = takeByTopologyNUMADistributed(logr.Discard(), asked.Machine.topology(), available, asked.Count, asked.Group, strategy)
	}
	if err != nil {
		return map[string]string{"error": err.Error()}, nil
	}
	return map[string]string{"cpus": taken.String()}, nil
}

type cpuStep struct {
	Do        string  `json:"do"`
	Pod       *v1.Pod `json:"pod"`
	Container string  `json:"container"`
	Affinity  []int   `json:"affinity"`
}

type policyCase struct {
	Machine        machine                     `json:"machine"`
	Options        map[string]string           `json:"options"`
	Alpha          bool                        `json:"alpha"`
	Beta           bool                        `json:"beta"`
	TopologyPolicy string                      `json:"topologyPolicy"`
	Count          int                         `json:"count"`
	Reserved       []int                       `json:"reserved"`
	Shared         []int                       `json:"shared"`
	Containers     map[string]map[string][]int `json:"containers"`
	Steps          []cpuStep                   `json:"steps"`
}

// affinities is a topology manager that has the hints of the case.
type affinities struct {
	name string
	hint topologymanager.TopologyHint
}

func (a *affinities) GetAffinity(string, string) topologymanager.TopologyHint { return a.hint }
func (a *affinities) GetPolicy() topologymanager.Policy {
	return named{Policy: topologymanager.NewNonePolicy(), name: a.name}
}
func (a *affinities) Name() string { return "container" }

type named struct {
	topologymanager.Policy
	name string
}

func (n named) Name() string { return n.name }

type cpuHint struct {
	Nodes     []int `json:"nodes"`
	Preferred bool  `json:"preferred"`
}

type cpuAnswer struct {
	Error  string                       `json:"error"`
	Hints  []cpuHint                    `json:"hints"`
	Shared string                       `json:"shared"`
	Has    map[string]map[string]string `json:"has"`
}

func answerCPUPolicy(line []byte) (any, error) {
	var asked policyCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		"CPUManagerPolicyAlphaOptions": asked.Alpha,
		"CPUManagerPolicyBetaOptions":  asked.Beta,
	}); err != nil {
		return nil, err
	}
	logger := logr.Discard()
	manager := &affinities{name: asked.TopologyPolicy}
	policy, err := cpumanager.NewStaticPolicy(logger, asked.Machine.topology(), asked.Count, cpuset.New(asked.Reserved...), manager, asked.Options)
	if err != nil {
		return map[string]string{"error": err.Error()}, nil
	}
	known := state.NewMemoryState(logger)
	known.SetDefaultCPUSet(cpuset.New(asked.Shared...))
	for uid, containers := range asked.Containers {
		for name, cpus := range containers {
			known.SetCPUSet(uid, name, cpuset.New(cpus...))
		}
	}
	if err := policy.Start(logger, known); err != nil {
		return map[string]string{"error": err.Error()}, nil
	}
	answers := []cpuAnswer{}
	for _, step := range asked.Steps {
		var answer cpuAnswer
		var err error
		container := containerNamed(step.Pod, step.Container)
		switch step.Do {
		case "allocate":
			manager.hint = topologymanager.TopologyHint{}
			if step.Affinity != nil {
				if manager.hint.NUMANodeAffinity, err = bitmask.NewBitMask(step.Affinity...); err != nil {
					return nil, err
				}
			}
			err = policy.Allocate(logger, known, step.Pod, container)
		case "release":
			err = policy.RemoveContainer(logger, known, string(step.Pod.UID), step.Container)
		case "hints":
			answer.Hints = hintsOf(policy.GetTopologyHints(logger, known, step.Pod, container))
		case "podHints":
			answer.Hints = hintsOf(policy.GetPodTopologyHints(logger, known, step.Pod))
		default:
			return nil, fmt.Errorf("unknown step %q", step.Do)
		}
		if err != nil {
			answer.Error = err.Error()
		}
		answer.Shared = known.GetDefaultCPUSet().String()
		answer.Has = writtenAssignments(known)
		answers = append(answers, answer)
	}
	return map[string]any{"steps": answers}, nil
}

func containerNamed(pod *v1.Pod, name string) *v1.Container {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for at := range containers {
			if containers[at].Name == name {
				return &containers[at]
			}
		}
	}
	return nil
}

// hintsOf is nil for a container that does not care.
func hintsOf(found map[string][]topologymanager.TopologyHint) []cpuHint {
	hints, cares := found[string(v1.ResourceCPU)]
	if !cares {
		return nil
	}
	written := []cpuHint{}
	for _, hint := range hints {
		written = append(written, cpuHint{Nodes: hint.NUMANodeAffinity.GetBits(), Preferred: hint.Preferred})
	}
	return written
}

func writtenAssignments(known state.State) map[string]map[string]string {
	written := map[string]map[string]string{}
	for uid, containers := range known.GetCPUAssignments() {
		written[uid] = map[string]string{}
		for name, cpus := range containers {
			written[uid][name] = cpus.String()
		}
	}
	return written
}

type cpuStateCase struct {
	Policy  string                       `json:"policy"`
	Shared  string                       `json:"shared"`
	Entries map[string]map[string]string `json:"entries"`
}

// answerCPUState writes a cpu_manager_state.
func answerCPUState(line []byte) (any, error) {
	var asked cpuStateCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	checkpoint := &state.CPUManagerCheckpointV2{PolicyName: asked.Policy, DefaultCPUSet: asked.Shared, Entries: asked.Entries}
	text, err := checkpoint.MarshalCheckpoint()
	return map[string]string{"text": string(text)}, err
}
