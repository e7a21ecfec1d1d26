// Package inbox tests the page beside it in a real browser, as its README says.
package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"godwit.dev/godwit/test/blackbox"
	"godwit.dev/godwit/test/blackbox/chromium"
)

// serve serves the page as a folder's server does, with the address of the server that the test has started.
func serve(t *testing.T, server *blackbox.Server) string {
	t.Helper()
	page, err := os.ReadFile("index.html")
	if err != nil {
		t.Fatal(err)
	}
	const usual = "http://localhost:8080"
	if strings.Count(string(page), usual) != 1 {
		t.Fatalf("the page names %s not once", usual)
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(strings.Replace(string(page), usual, "http://"+server.HTTP, 1)))
	}))
	t.Cleanup(site.Close)
	if out, err := server.Manage("app", "set", "demo", "--origin", site.URL, "--data", server.Dir); err != nil {
		t.Fatalf("allow the page: %v\n%s", err, out)
	}
	return site.URL
}

func TestWhatIsPublishedIsInTheListAndAnsweredThere(t *testing.T) {
	blackbox.Long(t)
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	site, api := serve(t, server), server.API()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(readme), "-d '{")
	body, _, ended := strings.Cut(body, "'\n")
	var question map[string]any
	if err := json.Unmarshal([]byte("{"+body), &question); err != nil || !found || !ended {
		t.Fatalf("the README's publish cannot be read: %v", err)
	}
	question["id"] = "question"
	api.Call(t, http.MethodPost, "/v1/notifications", question, nil)

	ctx := chromium.Start(t, 5*blackbox.Patience)
	if err := chromedp.Run(ctx, chromedp.Navigate(site)); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the page says what is unread", `document.querySelector("#said").value === "Unread: 1."`)
	until(ctx, t, "the question is in the list", `(() => {
		const root = document.querySelector("godwit-inbox").shadowRoot;
		document.querySelector("godwit-inbox").open();
		const yes = [...root.querySelectorAll("button[part=action]")].find((b) => b.textContent === "Yes");
		yes?.click();
		return yes !== undefined;
	})()`)
	blackbox.Eventually(t, "it is answered", func() error { return api.WantState(t.Context(), "question", "ada", "replied") })
	until(ctx, t, "the page says what is unread", `document.querySelector("#said").value === "Unread: 0."`)
}

// until waits until an expression is true.
func until(ctx context.Context, t *testing.T, what, js string) {
	t.Helper()
	blackbox.Eventually(t, what, func() error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		var is bool
		if err := chromedp.Run(ctx, chromedp.Evaluate(js, &is)); err != nil {
			return err
		}
		if !is {
			return fmt.Errorf("it is not")
		}
		return nil
	})
}
