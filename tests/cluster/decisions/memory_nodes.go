package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

const memoryStateFile = "memory_manager_state"

// memoryNode is one NUMA node; HugePages are pairs of a size in KiB and a number.
type memoryNode struct {
	ID        int         `json:"id"`
	Memory    uint64      `json:"memory"`
	HugePages [][2]uint64 `json:"hugePages"`
}

func memoryMachine(nodes []memoryNode) *cadvisorapi.MachineInfo {
	machine := &cadvisorapi.MachineInfo{}
	for _, one := range nodes {
		node := cadvisorapi.Node{Id: one.ID, Memory: one.Memory}
		for _, pages := range one.HugePages {
			node.HugePages = append(node.HugePages, cadvisorapi.HugePagesInfo{PageSize: pages[0], NumPages: pages[1]})
		}
		machine.Topology = append(machine.Topology, node)
	}
	return machine
}

// memoryContent is what a state holds, in the words of its file.
type memoryContent struct {
	MachineState state.NUMANodeMap                `json:"machineState"`
	Entries      state.ContainerMemoryAssignments `json:"entries"`
}

type memoryStep struct {
	Do        string   `json:"do"`
	Pod       *v1.Pod  `json:"pod"`
	Container string   `json:"container"`
	Affinity  numaHint `json:"affinity"`
}

type memoryCase struct {
	Nodes    []memoryNode                       `json:"nodes"`
	Reserved map[int]map[v1.ResourceName]uint64 `json:"reserved"`
	Known    memoryContent                      `json:"known"`
	Steps    []memoryStep                       `json:"steps"`
}

type memoryAnswer struct {
	Error string                `json:"error"`
	Hints map[string][]numaHint `json:"hints"`
	memoryContent
}

// answerMemoryPolicy starts a static policy and gives containers memory.
func answerMemoryPolicy(line []byte) (any, error) {
	var asked memoryCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	logger := logr.Discard()
	manager := &affinities{}
	policy, err := memorymanager.NewPolicyStatic(logger, memoryMachine(asked.Nodes), asked.Reserved, manager)
	if err != nil {
		return map[string]string{"error": err.Error()}, nil
	}
	known := state.NewMemoryState(logger)
	known.SetMachineState(asked.Known.MachineState)
	known.SetMemoryAssignments(asked.Known.Entries)
	if err := policy.Start(logger, known); err != nil {
		return map[string]string{"error": err.Error()}, nil
	}
	answers := []memoryAnswer{}
	for _, step := range asked.Steps {
		var answer memoryAnswer
		container := containerNamed(step.Pod, step.Container)
		switch step.Do {
		case "allocate":
			if manager.hint, err = step.Affinity.hint(); err != nil {
				return nil, err
			}
			if err := policy.Allocate(logger, known, step.Pod, container); err != nil {
				answer.Error = err.Error()
			}
		case "release":
			policy.RemoveContainer(logger, known, string(step.Pod.UID), step.Container)
		case "hints":
			answer.Hints = memoryHints(policy.GetTopologyHints(logger, known, step.Pod, container))
		case "podHints":
			answer.Hints = memoryHints(policy.GetPodTopologyHints(logger, known, step.Pod))
		default:
			return nil, fmt.Errorf("unknown step %q", step.Do)
		}
		answer.memoryContent = writtenMemory(known)
		answers = append(answers, answer)
	}
	return map[string]any{"steps": answers}, nil
}

func memoryHints(found map[string][]topologymanager.TopologyHint) map[string][]numaHint {
	written := map[string][]numaHint{}
	for resource, hints := range found {
		written[resource] = []numaHint{}
		for _, one := range hints {
			written[resource] = append(written[resource], writtenHint(one))
		}
	}
	return written
}

// writtenMemory sorts the blocks of a container: the kubelet appends them in the order of a map.
func writtenMemory(known state.State) memoryContent {
	entries := known.GetMemoryAssignments()
	for _, containers := range entries {
		for _, blocks := range containers {
			sort.Slice(blocks, func(one, other int) bool { return blocks[one].Type < blocks[other].Type })
		}
	}
	return memoryContent{MachineState: known.GetMachineState(), Entries: entries}
}

type reservationCase struct {
	Policy   string                            `json:"policy"`
	Nodes    []memoryNode                      `json:"nodes"`
	Reserved map[string]string                 `json:"reserved"`
	Given    []kubeletconfig.MemoryReservation `json:"given"`
}

// answerReservations checks a configuration by itself, then on a machine.
func answerReservations(line []byte) (any, error) {
	var asked reservationCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	faults := []string{}
	for _, err := range validateReservedMemoryConfiguration(&kubeletconfig.KubeletConfiguration{ReservedMemory: asked.Given}) {
		faults = append(faults, err.Error())
	}
	sort.Strings(faults)
	reserved := v1.ResourceList{}
	for name, amount := range asked.Reserved {
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, err
		}
		total := resource.NewQuantity(0, resource.DecimalSI) // as GetNodeAllocatableReservation sums
		total.Add(quantity)
		reserved[v1.ResourceName(name)] = *total
	}
	answer := map[string]any{"faults": faults, "error": ""}
	_, err := memorymanager.NewManager(logr.Discard(), asked.Policy, memoryMachine(asked.Nodes), reserved, asked.Given, os.TempDir(), &affinities{})
	if err != nil {
		answer["error"] = err.Error()
	}
	return answer, nil
}

type memoryStateCase struct {
	Policy string `json:"policy"`
	memoryContent
}

// answerMemoryState lets the kubelet write a memory_manager_state.
func answerMemoryState(line []byte) (any, error) {
	var asked memoryStateCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "decisions")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	known, err := state.NewCheckpointState(logr.Discard(), folder, memoryStateFile, asked.Policy)
	if err != nil {
		return nil, err
	}
	known.SetMachineState(asked.MachineState)
	known.SetMemoryAssignments(asked.Entries)
	text, err := os.ReadFile(filepath.Join(folder, memoryStateFile))
	return map[string]string{"text": string(text)}, err
}

type memoryFileCase struct {
	Policy string `json:"policy"`
	Text   string `json:"text"`
}

// answerMemoryFile lets the kubelet read a memory_manager_state.
func answerMemoryFile(line []byte) (any, error) {
	var asked memoryFileCase
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "decisions")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := os.WriteFile(filepath.Join(folder, memoryStateFile), []byte(asked.Text), 0o600); err != nil {
		return nil, err
	}
	known, err := state.NewCheckpointState(logr.Discard(), folder, memoryStateFile, asked.Policy)
	if err != nil {
		return map[string]string{"error": err.Error(), "folder": folder}, nil
	}
	return writtenMemory(known), nil
}
