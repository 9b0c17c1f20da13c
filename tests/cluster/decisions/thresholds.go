package main

import (
	"encoding/json"

	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
)

// thresholdConfig is the part of a KubeletConfiguration that thresholds are parsed from.
type thresholdConfig struct {
	Enforced       []string          `json:"enforceNodeAllocatable"`
	Hard           map[string]string `json:"evictionHard"`
	Soft           map[string]string `json:"evictionSoft"`
	SoftGrace      map[string]string `json:"evictionSoftGracePeriod"`
	MinimumReclaim map[string]string `json:"evictionMinimumReclaim"`
}

type amount struct {
	Quantity string  `json:"quantity"`
	Share    float32 `json:"share"`
}

type threshold struct {
	Signal  string  `json:"signal"`
	Least   amount  `json:"least"`
	Grace   int64   `json:"grace"`
	Reclaim *amount `json:"reclaim"`
}

func (c thresholdConfig) parse() ([]evictionapi.Threshold, error) {
	return eviction.ParseThresholdConfig(c.Enforced, c.Hard, c.Soft, c.SoftGrace, c.MinimumReclaim)
}

func answerThresholds(line []byte) (any, error) {
	var config thresholdConfig
	if err := json.Unmarshal(line, &config); err != nil {
		return nil, err
	}
	found, err := config.parse()
	if err != nil {
		return map[string]string{"error": err.Error()}, nil
	}
	thresholds := []threshold{}
	for _, one := range found {
		written := threshold{Signal: string(one.Signal), Least: writtenAmount(one.Value), Grace: int64(one.GracePeriod)}
		if one.MinReclaim != nil {
			reclaim := writtenAmount(*one.MinReclaim)
			written.Reclaim = &reclaim
		}
		thresholds = append(thresholds, written)
	}
	return map[string]any{"thresholds": thresholds}, nil
}

func writtenAmount(value evictionapi.ThresholdValue) amount {
	if value.Quantity != nil {
		return amount{Quantity: value.Quantity.String()}
	}
	return amount{Share: value.Percentage}
}
