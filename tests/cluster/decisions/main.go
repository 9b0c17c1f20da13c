// Decisions answers questions with the kubelet's own code: one JSON object a line on stdin, one answer a line on stdout.
//
// The tests ask it random cases and compare tempolet's answers (tests/cluster/decisions/README.md).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// question is one line; Kind names the answerer, which reads the rest of the line.
type question struct {
	Kind string `json:"kind"`
}

var answerers = map[string]func([]byte) (any, error){
	"thresholds": answerThresholds,
	"rank":       answerRank,
	"rounds":     answerRounds,
	"preempt":    answerPreempt,
	"shutdown":   answerShutdown,
	"cpus":       answerTake,
	"cpu-policy": answerCPUPolicy,
	"cpu-state":  answerCPUState,
	"devices":    answerDevices,

	"topology":       answerAdmit,
	"topology-merge": answerMerge,

	"memory-policy":       answerMemoryPolicy,
	"memory-reservations": answerReservations,
	"memory-state":        answerMemoryState,
	"memory-file":         answerMemoryFile,

	"migration": answerMigration,
}

func main() {
	klog.SetLogger(logr.Discard())
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		answer, err := answer(line)
		if err == nil {
			err = encoder.Encode(answer)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%v in %s\n", err, line)
			os.Exit(1)
		}
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}

func answer(line []byte) (any, error) {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	answerer, found := answerers[asked.Kind]
	if !found {
		return nil, fmt.Errorf("unknown kind %q", asked.Kind)
	}
	return answerer(line)
}
