package webpage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// operates signs in with the operator key.
func (p *person) operates(server *blackbox.Server) {
	p.Helper()
	key, err := os.ReadFile(filepath.Join(server.Dir, "operator.key"))
	if err != nil {
		p.Fatal(err)
	}
	p.givesKey(strings.TrimSpace(string(key)))
	p.sees("#apps")
}

func TestOperatorsManageAppsInABrowser(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	p, other := newPerson(t, "http://"+server.HTTP), newPerson(t, "http://"+server.HTTP)
	p.operates(server)
	p.misses(`a[href="/ui/campaigns"]`)
	p.types("#name", "rides")
	p.clicks("#make button")
	p.sees("#secret")
	p.clicks(`a[href="/ui/apps/rides"]`)
	p.sees("#settings")

	other.operates(server)
	other.opens("/ui/apps/rides")
	other.types("#issuer", "https://login.example.org")
	other.clicks("#settings button")
	other.reads("main", "It is changed")

	p.types("#audience", "rides") // the page is older than the other operator's change
	p.clicks("#settings button")
	p.reads("main", "Another operator has changed it")
	p.types("#audience", "rides")
	p.clicks("#settings button")
	p.reads("main", "It is changed")

	p.types("#key", "orders service")
	p.clicks("#keys form#make button")
	p.sees("#secret")
	p.looksAtEveryPage([]sight{{name: "apps", path: "/ui/apps", ready: "#apps"}, {name: "app", path: "/ui/apps/rides", ready: "#settings"}, {name: "deeds", path: "/ui/deeds", ready: "#deeds"}})

	p.opens("/ui/apps/rides")
	p.types("#name", "rides")
	p.clicks("#delete button")
	p.sees("#apps")
	p.misses(`a[href="/ui/apps/rides"]`)
}
