package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	testingclock "k8s.io/utils/clock/testing"
)

// roundsQuestion is a whole eviction manager over steps of time.
type roundsQuestion struct {
	Config       thresholdConfig `json:"config"`
	Transition   int64           `json:"transitionSeconds"`
	LongestGrace int64           `json:"maxPodGracePeriodSeconds"`
	LocalStorage bool            `json:"localStorageCapacityIsolation"`
	ImageFs      bool            `json:"dedicatedImageFs"`
	ContainerFs  bool            `json:"dedicatedContainerFs"`
	Pods         []*v1.Pod       `json:"pods"`
	Steps        []step          `json:"steps"`
}

type step struct {
	After     int64             `json:"afterSeconds"`
	Summary   *statsapi.Summary `json:"summary"`
	Reclaimed *statsapi.Summary `json:"reclaimed"`
}

type stepAnswer struct {
	*record
	Conditions []string      `json:"conditions"`
	Reclaims   []string      `json:"reclaims"`
	Evicted    []string      `json:"evicted"`
	Admitted   []admitAnswer `json:"admitted"`
}

type admitAnswer struct {
	UID     string `json:"uid"`
	Admit   bool   `json:"admit"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// node is all that an eviction manager asks about its node.
type node struct {
	question  roundsQuestion
	now       *step
	reclaims  []string
	gone      map[string]bool
	summaries int
}

func (n *node) HasDedicatedImageFs(context.Context) (bool, error) { return n.question.ImageFs, nil }
func (n *node) HasDedicatedContainerFs(context.Context) (bool, error) {
	return n.question.ContainerFs, nil
}

func (n *node) DeleteUnusedImages(context.Context) error {
	n.reclaims = append(n.reclaims, "images")
	return nil
}

func (n *node) DeleteAllUnusedContainers(context.Context) error {
	n.reclaims = append(n.reclaims, "containers")
	return nil
}

// Get returns the step's summary, and the one after reclaiming to whoever asks again.
func (n *node) Get(context.Context, bool) (*statsapi.Summary, error) {
	n.summaries++
	if n.summaries > 1 {
		return n.now.Reclaimed, nil
	}
	return n.now.Summary, nil
}

func (n *node) GetCPUAndMemoryStats(ctx context.Context) (*statsapi.Summary, error) {
	return n.Get(ctx, false)
}

func (n *node) activePods() []*v1.Pod {
	found := []*v1.Pod{}
	for _, pod := range n.question.Pods {
		if !n.gone[string(pod.UID)] {
			found = append(found, pod)
		}
	}
	return found
}

func answerRounds(line []byte) (any, error) {
	var asked roundsQuestion
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	thresholds, err := asked.Config.parse()
	if err != nil {
		return nil, err
	}
	about := &node{question: asked, gone: map[string]bool{}}
	told := newRecord()
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	config := eviction.Config{
		PressureTransitionPeriod: time.Duration(asked.Transition) * time.Second,
		MaxPodGracePeriodSeconds: asked.LongestGrace,
		Thresholds:               thresholds,
	}
	kill := func(pod *v1.Pod, evicted bool, grace *int64, fn func(*v1.PodStatus)) error {
		return told.killPod(pod, evicted, grace, fn)
	}
	manager, admission := eviction.NewManager(about, config, kill, about, about, told, &v1.ObjectReference{}, clock, asked.LocalStorage)
	ctx := klog.NewContext(context.Background(), logr.Discard())
	answers := []stepAnswer{}
	for i := range asked.Steps {
		about.now, about.summaries, about.reclaims = &asked.Steps[i], 0, []string{}
		*told = *newRecord()
		clock.Step(time.Duration(about.now.After) * time.Second)
		evicted, err := synchronize(implementation(manager), ctx, about, about.activePods)
		if err != nil {
			return nil, err
		}
		for _, pod := range evicted {
			about.gone[string(pod.UID)] = true
		}
		kept := *told
		answers = append(answers, stepAnswer{
			record:     &kept,
			Conditions: conditions(manager),
			Reclaims:   about.reclaims,
			Evicted:    uids(evicted),
			Admitted:   admitted(admission, asked.Pods),
		})
	}
	return map[string]any{"steps": answers}, nil
}

func conditions(manager eviction.Manager) []string {
	found := []string{}
	if manager.IsUnderMemoryPressure() {
		found = append(found, "MemoryPressure")
	}
	if manager.IsUnderDiskPressure() {
		found = append(found, "DiskPressure")
	}
	if manager.IsUnderPIDPressure() {
		found = append(found, "PIDPressure")
	}
	return found
}

func admitted(admission lifecycle.PodAdmitHandler, pods []*v1.Pod) []admitAnswer {
	found := []admitAnswer{}
	for _, pod := range pods {
		result := admission.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
		found = append(found, admitAnswer{UID: string(pod.UID), Admit: result.Admit, Reason: result.Reason, Message: result.Message})
	}
	return found
}
