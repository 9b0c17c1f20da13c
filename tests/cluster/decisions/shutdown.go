package main

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
)

type shutdownQuestion struct {
	Periods []kubeletconfig.ShutdownGracePeriodByPodPriority `json:"periods"`
	Whole   int64                                            `json:"whole"`
	Part    int64                                            `json:"part"`
	Pods    []*v1.Pod                                        `json:"pods"`
}

// podShutdownGroup mirrors nodeshutdown.podShutdownGroup.
type podShutdownGroup struct {
	kubeletconfig.ShutdownGracePeriodByPodPriority
	Pods []*v1.Pod
}

type shutdownGroup struct {
	Priority int32    `json:"priority"`
	Seconds  int64    `json:"seconds"`
	Pods     []string `json:"pods"`
}

func answerShutdown(line []byte) (any, error) {
	var asked shutdownQuestion
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	periods := asked.Periods
	if len(periods) == 0 {
		periods = migrateConfig(time.Duration(asked.Whole)*time.Millisecond, time.Duration(asked.Part)*time.Millisecond)
	}
	found := []shutdownGroup{}
	if len(periods) > 0 {
		for _, group := range groupByPriority(periods, asked.Pods) {
			found = append(found, shutdownGroup{group.Priority, group.ShutdownGracePeriodSeconds, uids(group.Pods)})
		}
	}
	return map[string]any{"groups": found}, nil
}
