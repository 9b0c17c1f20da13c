package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// kill is what the kubelet asked of its pod workers.
type kill struct {
	UID       string           `json:"uid"`
	Grace     *int64           `json:"grace"`
	Phase     v1.PodPhase      `json:"phase"`
	Reason    string           `json:"reason"`
	Message   string           `json:"message"`
	Condition *v1.PodCondition `json:"condition"`
}

// event is what the kubelet told about a pod or the node.
type event struct {
	UID         string            `json:"uid"`
	Type        string            `json:"type"`
	Reason      string            `json:"reason"`
	Message     string            `json:"message"`
	Annotations map[string]string `json:"annotations"`
}

// record keeps both. It is an EventRecorder, and killPod is a KillPodFunc.
type record struct {
	Kills  []kill  `json:"kills"`
	Events []event `json:"events"`
}

func newRecord() *record {
	return &record{Kills: []kill{}, Events: []event{}}
}

func (r *record) killPod(pod *v1.Pod, _ bool, grace *int64, fn func(*v1.PodStatus)) error {
	status := v1.PodStatus{}
	fn(&status)
	found := kill{UID: string(pod.UID), Phase: status.Phase, Reason: status.Reason, Message: status.Message}
	if grace != nil {
		seconds := *grace
		found.Grace = &seconds
	}
	if len(status.Conditions) > 0 {
		found.Condition = &status.Conditions[0]
	}
	r.Kills = append(r.Kills, found)
	return nil
}

func (r *record) Event(object runtime.Object, eventType, reason, message string) {
	r.AnnotatedEventf(object, nil, eventType, reason, "%s", message)
}

func (r *record) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEventf(object, nil, eventType, reason, format, args...)
}

func (r *record) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	found := event{Type: eventType, Reason: reason, Message: fmt.Sprintf(format, args...), Annotations: annotations}
	if pod, ok := object.(*v1.Pod); ok {
		found.UID = string(pod.UID)
	}
	r.Events = append(r.Events, found)
}
