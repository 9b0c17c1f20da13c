package main

import (
	"context"
	"encoding/json"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/preemption"
)

type preemptQuestion struct {
	Preemptor *v1.Pod   `json:"preemptor"`
	Pods      []*v1.Pod `json:"pods"`
	Reasons   []reason  `json:"reasons"`
}

// reason is a lack of a resource, or with a predicate any other reason.
type reason struct {
	Resource  v1.ResourceName `json:"resource"`
	Requested int64           `json:"requested"`
	Used      int64           `json:"used"`
	Capacity  int64           `json:"capacity"`
	Predicate string          `json:"predicate"`
	Why       string          `json:"why"`
}

func (r reason) failure() lifecycle.PredicateFailureReason {
	if r.Predicate != "" {
		return &lifecycle.PredicateFailureError{PredicateName: r.Predicate, PredicateDesc: r.Why}
	}
	return &lifecycle.InsufficientResourceError{ResourceName: r.Resource, Requested: r.Requested, Used: r.Used, Capacity: r.Capacity}
}

type preemptAnswer struct {
	*record
	Left  []string `json:"left"`
	Error string   `json:"error"`
}

func answerPreempt(line []byte) (any, error) {
	var asked preemptQuestion
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	told := newRecord()
	pods := func() []*v1.Pod { return asked.Pods }
	handler := preemption.NewCriticalPodAdmissionHandler(pods, told.killPod, told)
	failures := []lifecycle.PredicateFailureReason{}
	for _, one := range asked.Reasons {
		failures = append(failures, one.failure())
	}
	ctx := klog.NewContext(context.Background(), logr.Discard())
	left, err := handler.HandleAdmissionFailure(ctx, asked.Preemptor, failures)
	answer := preemptAnswer{record: told, Left: []string{}}
	for _, one := range left {
		answer.Left = append(answer.Left, one.GetReason())
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer, nil
}
