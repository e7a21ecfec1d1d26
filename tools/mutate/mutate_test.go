package main

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestMutationsFitTheCode(t *testing.T) {
	for _, m := range slices.Concat(mutations, ofObjects, ofRights, ofNodes, ofFCM, ofAPNs, ofPreferences, ofSteps, ofTokens) {
		if _, err := m.find(filepath.Join("..", "..", m.file)); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if len(m.tests) == 0 || m.old == m.new {
			t.Errorf("%s changes nothing, or nothing could notice", m.name)
		}
	}
}
