package admin

import (
	"testing"

	"godwit.dev/godwit/internal/server/admin/resource"
)

func TestAGroupOfIntegrationsIsBounded(t *testing.T) {
	var g integrationGroup
	for range mostListed + 1 {
		g.add(new(resource.Line))
	}
	if len(g.Items) != mostListed {
		t.Errorf("%d are shown, want at most %d", len(g.Items), mostListed)
	}
}
