package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

// migrated is a translated volume, or why it has none.
type migrated struct {
	Volume *v1.PersistentVolume `json:"volume,omitempty"`
	Error  string               `json:"error,omitempty"`
}

// answerMigration translates a PersistentVolume as scheduler, controllers and kubelet do.
func answerMigration(line []byte) (any, error) {
	var asked struct {
		Volume v1.PersistentVolume `json:"volume"`
	}
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
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
