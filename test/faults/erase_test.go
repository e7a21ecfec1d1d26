package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/test/blackbox"
)

// Bytes that nobody else writes.
const (
	erasedName = "quillon-zebedee-4711"
	erasedText = "Xylophonwechsel-4711"
)

// holds lists the files below a folder that contain any of these texts.
func holds(t *testing.T, dir string, texts ...string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, text := range texts {
			if n := bytes.Count(b, []byte(text)); n > 0 {
				found = append(found, fmt.Sprintf("%s has %s %d times", filepath.Base(path), text, n))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// overwritten waits until the server has overwritten all deleted data.
func overwritten(t *testing.T, s *blackbox.Server) {
	t.Helper()
	blackbox.Eventually(t, "what was erased is overwritten", func() error {
		if _, err := os.Stat(filepath.Join(s.Dir, "erasures.json")); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("it is still to be done (%w)", err)
		}
		return nil
	})
}

func TestNothingOfAnErasedRecipientIsLeftInAnyFile(t *testing.T) {
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls", "--erase-within", "1s"))
	leaveTraces(t, s)
	s.API().Call(t, http.MethodDelete, "/v1/recipients/"+erasedName, nil, nil)
	nothingIsLeft(t, s)
}

func TestNothingOfTheRecipientsOfADeletedAppIsLeftInAnyFile(t *testing.T) {
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls", "--erase-within", "1s"))
	leaveTraces(t, s)
	api := s.API()
	api.Call(t, http.MethodPost, "/v1/endpoints", map[string]any{"channel": "webhook", "address": map[string]any{"url": "http://127.0.0.1:1/" + erasedName}, "tags": []string{erasedText}}, nil)
	api.Call(t, http.MethodPut, "/v1/objects/g/"+erasedName, map[string]any{"payload": map[string]any{"name": erasedText}}, nil)
	api.Call(t, http.MethodPut, "/v1/recipients/"+erasedName+".too/preferences", map[string]any{"timezone": "Europe/Oslo"}, nil)
	for _, args := range [][]string{{"app", "create", "other"}, {"app", "delete", "demo", "--yes"}, {"app", "create", "demo"}} {
		if out, err := s.Manage(append(args, "--data", s.Dir)...); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	blackbox.Eventually(t, "the app is erased", func() error {
		if log := s.Log(); !strings.Contains(log, "app erased") {
			return errors.New("it is not yet")
		}
		return nil
	})
	nothingIsLeft(t, s)
}

// leaveTraces makes the app demo store data with erasedName in as many places as possible.
func leaveTraces(t *testing.T, s *blackbox.Server) {
	t.Helper()
	api := s.API()
	api.Call(t, http.MethodPut, "/v1/hooks/away", map[string]any{"url": "http://" + blackbox.Free(t) + "/"}, nil)
	for i := range 300 {
		to := []string{erasedName, "anna", "bo"}[i%3]
		n := map[string]any{"to": to, "id": fmt.Sprintf("%s-%d", to, i), "title": "t", "body": "b", "data": map[string]any{"n": i}}
		if to == erasedName {
			n["title"], n["body"] = erasedText, strings.Repeat(erasedText, i)
			n["collapse_key"] = fmt.Sprintf("k%d", i%40)
		}
		api.Call(t, http.MethodPost, "/v1/notifications", n, nil)
	}
	api.Call(t, http.MethodPost, "/v1/notifications", map[string]any{"to": []string{"anna", erasedName, "bo"}, "title": "of several"}, nil)
	link, err := s.Dial(t.Context(), "ws", blackbox.Hello{App: "demo", Recipient: erasedName, Device: "phone"})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		n, err := blackbox.NextNotification(t.Context(), link)
		if err != nil {
			t.Fatal(err)
		}
		if err := link.Ack(t.Context(), n.ID); err != nil {
			t.Fatal(err)
		}
	}
	api.Call(t, http.MethodDelete, "/v1/recipients/"+erasedName+"/sessions", nil, nil)
	api.Call(t, http.MethodPost, "/v1/endpoints", map[string]any{
		"channel": "webhook", "recipient": erasedName, "address": map[string]any{"url": "http://127.0.0.1:1/" + erasedName}, "attributes": map[string]any{"name": erasedText}, "tags": []string{"t"},
	}, nil)
	var campaign struct{ ID string }
	if err := api.Call(t, http.MethodPost, "/v1/campaigns", map[string]any{
		"name": "c", "content": map[string]any{"title": "Hi"}, "audience": map[string]any{"recipients": []string{erasedName, "anna"}},
	}, nil).JSON(&campaign); err != nil {
		t.Fatal(err)
	}
	api.Call(t, http.MethodPut, "/v1/objects/g/o", map[string]any{"version": "1", "source": erasedName + "/phone"}, nil)
	api.Call(t, http.MethodPut, "/v1/recipients/"+erasedName+"/preferences", map[string]any{"timezone": "Europe/Oslo"}, nil)
}

// nothingIsLeft waits until deleted data is overwritten, and searches the files while the server runs and after its end.
func nothingIsLeft(t *testing.T, s *blackbox.Server) {
	t.Helper()
	overwritten(t, s)
	if found := holds(t, s.Dir, erasedName, erasedText); len(found) > 0 {
		t.Errorf("while the server runs: %q", found)
	}
	s.Kill()
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ends with %d", code)
	}
	if found := holds(t, s.Dir, erasedName, erasedText); len(found) > 0 {
		t.Errorf("after a crash and a stop: %q", found)
	}
	if out, err := s.Run("doctor", "--verify", "--data", s.Dir); err != nil {
		t.Errorf("the files are not sound: %v\n%s", err, out)
	}
}

func TestNothingOfADeletedEndpointIsLeftInAnyFile(t *testing.T) {
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--allow-private-urls", "--erase-within", "1s"))
	var made struct {
		ID    string
		Token string `json:"manage_token"`
	}
	api := s.API()
	if err := api.Call(t, http.MethodPost, "/v1/endpoints", map[string]any{
		"channel": "webhook", "address": map[string]any{"url": "http://127.0.0.1:1/" + erasedName}, "attributes": map[string]any{"name": erasedText},
	}, nil).JSON(&made); err != nil {
		t.Fatal(err)
	}
	s.API(made.Token).Call(t, http.MethodDelete, "/v1/endpoints/"+made.ID+"?app=demo", nil, nil)
	overwritten(t, s)
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ends with %d", code)
	}
	if found := holds(t, s.Dir, erasedName, erasedText); len(found) > 0 {
		t.Errorf("left: %q", found)
	}
}
