// The official CSI mock of Kubernetes' own tests, as a process: it serves its three services on a socket, and registers with the node as
// a driver's registrar does. Every call is printed, a line of JSON each.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

type registrar struct {
	registration.UnimplementedRegistrationServer
	name, endpoint string
}

// GetInfo describes the driver.
func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: r.name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus prints the outcome.
func (r registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	print("NotifyRegistrationStatus", status, nil)
	return &registration.RegistrationStatusResponse{}, nil
}

var printing sync.Mutex

func print(call string, request any, err error) {
	printing.Lock()
	defer printing.Unlock()
	line := map[string]any{"call": call, "request": request}
	if err != nil {
		line["error"] = err.Error()
	}
	text, _ := json.Marshal(line)
	fmt.Println(string(text))
}

// printed prints each call, and how it ended.
func printed(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	print(info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:], request, err)
	return answer, err
}

func serve(server *grpc.Server, socket string) {
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go server.Serve(listener)
}

func main() {
	config := service.Config{}
	var folder, registry string
	flag.StringVar(&folder, "folder", "", "where its socket is")
	flag.StringVar(&registry, "registry", "", "the node's folder of plugins' sockets; none: it does not register")
	flag.StringVar(&config.DriverName, "name", service.Name, "the driver's name")
	flag.Int64Var(&config.AttachLimit, "attach-limit", 0, "the most volumes on this node")
	flag.BoolVar(&config.DisableAttach, "disable-attach", false, "volumes need no attaching")
	flag.BoolVar(&config.NodeExpansionRequired, "node-expand-required", false, "the node expands volumes")
	flag.BoolVar(&config.VolumeMountGroupRequired, "volume-mount-group", false, "the driver applies fsGroup")
	flag.Parse()
	config.PermissiveTargetPath = true
	mock, server := service.New(config), grpc.NewServer(grpc.UnaryInterceptor(printed))
	csi.RegisterIdentityServer(server, mock)
	csi.RegisterControllerServer(server, mock)
	csi.RegisterNodeServer(server, mock)
	endpoint := filepath.Join(folder, "csi.sock")
	serve(server, endpoint)
	if registry != "" {
		registering, socket := grpc.NewServer(), filepath.Join(registry, config.DriverName+"-reg.sock")
		registration.RegisterRegistrationServer(registering, registrar{name: config.DriverName, endpoint: endpoint})
		serve(registering, socket)
		defer os.Remove(socket)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
