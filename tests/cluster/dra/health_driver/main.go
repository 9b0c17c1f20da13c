// The official DRA test driver of Kubernetes, whose devices get the health that its standard input says: lines of
// pool, device, health and message, with tabs between them. The driver's own program has no way to say it.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/kubernetes/test/e2e/dra/test-driver/app"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of the API server")
	name := flag.String("drivername", "", "the driver's name")
	node := flag.String("node-name", "", "the node")
	cdi := flag.String("cdi-dir", "", "where CDI files are written")
	registry := flag.String("plugin-registration-path", "", "where kubelets look for plugins")
	data := flag.String("datadir", "", "where the driver's socket is made")
	flag.Parse()
	if err := run(*kubeconfig, *name, *node, *cdi, *registry, *data); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, name, node, cdi, registry, data string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	plugin, err := app.StartPlugin(context.Background(), cdi, name, client, node, app.FileOperations{},
		app.Options{EnableHealthService: true},
		kubeletplugin.PluginDataDirectoryPath(data+"/"+name),
		kubeletplugin.RegistrarDirectoryPath(registry),
	)
	if err != nil {
		return err
	}
	defer plugin.Stop()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), "\t", 4)
		if len(words) < 4 {
			return fmt.Errorf("four words are expected: %q", lines.Text())
		}
		plugin.HealthControlChan <- app.DeviceHealthUpdate{
			PoolName: words[0], DeviceName: words[1], Health: words[2], Message: words[3],
		}
	}
	return lines.Err()
}
