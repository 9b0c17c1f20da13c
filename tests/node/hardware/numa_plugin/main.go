// A device plugin by the kubelet's own stub, as the official sample-device-plugin is one. Its devices have NUMA nodes, and it is asked
// for GetPreferredAllocation and PreStartContainer, which the sample cannot be told to have.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	plugin "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

func main() {
	folder := flag.String("folder", pluginapi.DevicePluginPath, "where the kubelet's socket is")
	resource := flag.String("resource", "example.com/numa", "the resource's name")
	variable := flag.String("variable", "DEVICES", "the container's variable with the names of its devices")
	socket := flag.String("socket", "", "where it is served for others who register it; it does not register itself then")
	flag.Parse()
	if err := run(*folder, *socket, *resource, *variable, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder, served, resource, variable string, devices []string) error {
	listed := []*pluginapi.Device{}
	for _, one := range devices { // NAME=NODE
		name, node, _ := strings.Cut(one, "=")
		number, err := strconv.ParseInt(node, 10, 64)
		if err != nil {
			return err
		}
		near := &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: number}}}
		listed = append(listed, &pluginapi.Device{ID: name, Health: pluginapi.Healthy, Topology: near})
	}
	ctx := context.Background()
	socket := filepath.Join(folder, fmt.Sprintf("numa.%d", os.Getpid()))
	if served != "" {
		socket = served
	}
	stub := plugin.NewDevicePluginStub(klog.FromContext(ctx), listed, socket, resource, true, true)
	stub.SetGetPreferredAllocFunc(last)
	stub.SetAllocFunc(func(asked *pluginapi.AllocateRequest, _ map[string]*pluginapi.Device) (*pluginapi.AllocateResponse, error) {
		answer := &pluginapi.AllocateResponse{}
		for _, one := range asked.ContainerRequests {
			environment := map[string]string{variable: strings.Join(one.DevicesIds, ",")}
			answer.ContainerResponses = append(answer.ContainerResponses, &pluginapi.ContainerAllocateResponse{Envs: environment})
		}
		return answer, nil
	})
	if err := stub.Start(ctx); err != nil {
		return err
	}
	if served != "" {
		select {}
	}
	kubelet := filepath.Join(folder, filepath.Base(pluginapi.KubeletSocket))
	if err := stub.Register(ctx, kubelet, resource, folder); err != nil {
		return err
	}
	stub.Watch(ctx, kubelet, resource, folder)
	return nil
}

// The last ones that are available, so that it can be told from the kubelet's own choice.
func last(asked *pluginapi.PreferredAllocationRequest, _ map[string]*pluginapi.Device) (*pluginapi.PreferredAllocationResponse, error) {
	answer := &pluginapi.PreferredAllocationResponse{}
	for _, one := range asked.ContainerRequests {
		from := max(len(one.AvailableDeviceIDs)-int(one.AllocationSize), 0)
		preferred := &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: one.AvailableDeviceIDs[from:]}
		answer.ContainerResponses = append(answer.ContainerResponses, preferred)
	}
	return answer, nil
}
