package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

// migrated is a translated volume, or why it has none.
type migrated struct {
	Volume *v1.PersistentVolume `json:"volume,omitempty"`
	Error  string               `json:"error,omitempty"`
}

// answerMigration translates a PersistentVolume, or a volume in a pod's spec, as scheduler, controllers and kubelet do.
func answerMigration(line []byte) (any, error) {
	var asked struct {
		Volume    v1.PersistentVolume `json:"volume"`
		Inline    *v1.Volume          `json:"inline"`
		Namespace string              `json:"namespace"`
	}
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	if asked.Inline != nil {
		return inlineMigrated(asked.Inline, asked.Namespace), nil
	}
	translator := csitranslation.New()
	if !translator.IsPVMigratable(&asked.Volume) {
		return migrated{Volume: &asked.Volume}, nil
	}
	found, err := translator.TranslateInTreePVToCSI(klog.Background(), &asked.Volume)
	if err != nil {
		return migrated{Error: err.Error()}, nil
	}
	return migrated{Volume: found}, nil
}

// inlineMigrated translates a volume in a pod's spec; a panic of the library is an error.
func inlineMigrated(volume *v1.Volume, namespace string) (found migrated) {
	defer func() {
		if why := recover(); why != nil {
			found = migrated{Error: fmt.Sprintf("panic: %v", why)}
		}
	}()
	translator := csitranslation.New()
	if !translator.IsInlineMigratable(volume) {
		return migrated{}
	}
	made, err := translator.TranslateInTreeInlineVolumeToCSI(klog.Background(), volume, namespace)
	if err != nil {
		return migrated{Error: err.Error()}
	}
	return migrated{Volume: made}
}
