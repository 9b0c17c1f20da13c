package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

type rankQuestion struct {
	Resource v1.ResourceName     `json:"resource"`
	Files    []string            `json:"files"`
	Pods     []*v1.Pod           `json:"pods"`
	Stats    []statsapi.PodStats `json:"stats"`
}

func answerRank(line []byte) (any, error) {
	var asked rankQuestion
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	stats := map[string]statsapi.PodStats{}
	for _, one := range asked.Stats {
		stats[one.PodRef.UID] = one
	}
	found := func(pod *v1.Pod) (statsapi.PodStats, bool) {
		one, ok := stats[string(pod.UID)]
		return one, ok
	}
	switch asked.Resource {
	case v1.ResourceMemory:
		rankMemoryPressure(asked.Pods, found)
	case "pids":
		rankPIDPressure(asked.Pods, found)
	case v1.ResourceEphemeralStorage, "inodes":
		rankDiskPressureFunc(asked.Files, asked.Resource)(asked.Pods, found)
	default:
		return nil, fmt.Errorf("no ranking for %q", asked.Resource)
	}
	return map[string][]string{"order": uids(asked.Pods)}, nil
}

func uids(pods []*v1.Pod) []string {
	found := []string{}
	for _, pod := range pods {
		found = append(found, string(pod.UID))
	}
	return found
}
