package godwit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

// pushStep is one step of a case of api/vectors/push.json.
type pushStep struct {
	On, ID             string
	Count, Hours       int
	Webpush, FCM, APNs map[string]any
	Want               []string
	Post               *ackPost
}

type ackPost struct {
	Tokens []string
	Event  string
}

// device handles notifications like a program with a Deduplicator.
type device struct {
	*testing.T
	file   string
	ahead  time.Duration
	d      *Deduplicator
	tokens map[string]string // of what is shown
}

func (v *device) start() {
	d, err := OpenDeduplicator(v.file)
	if err != nil {
		v.Fatal(err)
	}
	d.now = func() time.Time { return time.Now().Add(v.ahead) }
	v.d = d
}

func (v *device) show(id string) bool {
	if v.d.Seen(id) {
		return false
	}
	if err := v.d.Shown(id); err != nil {
		v.Fatal(err)
	}
	return true
}

func (v *device) settle(id string) bool {
	shown, err := v.d.Settled(id)
	if err != nil {
		v.Fatal(err)
	}
	return shown
}

func (v *device) does(s *pushStep, channel string) (did []string, post *ackPost) {
	did = []string{}
	do := func(what string, yes bool) {
		if yes {
			did = append(did, what)
		}
	}
	switch s.On {
	case "live":
		do("show", v.show(s.ID))
	case "recall":
		do("close", v.settle(s.ID))
	case "clicked", "dismissed":
		shown := v.settle(s.ID)
		do("close", shown)
		if token := v.tokens[s.ID]; shown && token != "" {
			do("post", true)
			post = &ackPost{[]string{token}, s.On}
		}
	case "push":
		m := map[string]map[string]any{"webpush": s.Webpush, "fcm": s.FCM, "apns": s.APNs}[channel]
		if recalled := recalledBy(m); recalled != "" {
			do("close", v.settle(recalled))
			break
		}
		id, _ := m["godwit_id"].(string)
		v.tokens[id], _ = m["godwit_ack"].(string)
		shown := v.show(id)
		do("show", shown)
		if shown && m["godwit_settle"] == "shown" {
			do("post", true)
			post = &ackPost{[]string{v.tokens[id]}, "shown"}
		}
	case "others":
		for i := range s.Count {
			v.show(fmt.Sprintf("%p-%d", s, i))
		}
	case "later":
		v.ahead += time.Duration(s.Hours) * time.Hour
	case "restart":
		v.start()
	default:
		v.Fatalf("unknown step %q", s.On)
	}
	return did, post
}

// recalledBy returns the id of the notification that a message withdraws, in any channel's format.
func recalledBy(m map[string]any) string {
	switch r := m["godwit_recall"].(type) {
	case string:
		return r
	case []any:
		return fmt.Sprint(r[0])
	}
	if m["recall"] == true {
		return fmt.Sprint(m["godwit_id"])
	}
	return ""
}

func TestVectorPush(t *testing.T) {
	type vector struct {
		Name  string
		Steps []pushStep
	}
	for _, c := range vectors[vector](t, "push") {
		for _, channel := range []string{"webpush", "fcm", "apns"} {
			t.Run(channel+" "+c.Name, func(t *testing.T) {
				t.Parallel()
				v := &device{T: t, tokens: make(map[string]string)}
				if !slices.ContainsFunc(c.Steps, func(s pushStep) bool { return s.On == "others" }) { // in memory for these, which would otherwise sync 500 files
					v.file = filepath.Join(t.TempDir(), "seen.json")
				}
				v.start()
				for i := range c.Steps {
					s := &c.Steps[i]
					did, post := v.does(s, channel)
					if !slices.Equal(did, s.Want) || !reflect.DeepEqual(post, s.Post) {
						t.Fatalf("step %d, %s %s: does %q and posts %v, want %q and %v", i, s.On, s.ID, did, post, s.Want, s.Post)
					}
				}
			})
		}
	}
}

func TestADeduplicatorListsWhatIsShownAndOutlivesABadFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seen.json")
	if err := os.WriteFile(file, []byte(`{"format":1,"ids":[{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDeduplicator(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if err := d.Shown(id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Settled("b"); err != nil {
		t.Fatal(err)
	}
	if d, err = OpenDeduplicator(file); err != nil || !slices.Equal(d.Held(), []string{"a", "c"}) {
		t.Errorf("held %q, %v", d.Held(), err)
	}
	later, _ := json.Marshal(map[string]any{"format": 2, "ids": []string{}})
	if err := os.WriteFile(file, later, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDeduplicator(file); err == nil {
		t.Error("a file of a later version was read")
	}
}
