package foreign

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// authKey is the key for requests to the auth endpoint.
const authKey = "key of the auth endpoint"

// tokenOfDown is a token for which the auth endpoint fails.
const tokenOfDown = "down"

// authServer verifies tokens. A token is "token of <client>".
type authServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int // by token
}

func startAuth(t testing.TB) *authServer {
	t.Helper()
	a := &authServer{asked: make(map[string]int)}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("token")
		a.mu.Lock()
		a.asked[token]++
		a.mu.Unlock()
		client, ok := strings.CutPrefix(token, "token of ")
		switch {
		case token == tokenOfDown:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method != http.MethodGet || r.Header.Get("api-key") != authKey || !ok:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_ = json.NewEncoder(w).Encode(map[string]string{"driverId": client})
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// tokenOf is the token of a client.
func tokenOf(client string) string { return "token of " + client }

func (a *authServer) times(client string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[tokenOf(client)]
}

// driverAPI takes answers to quotes.
type driverAPI struct {
	*httptest.Server
	mu    sync.Mutex
	posts []quotePost
}

type quotePost struct {
	path   string
	header http.Header
	body   map[string]any
}

func startDriverAPI(t testing.TB) *driverAPI {
	t.Helper()
	d := &driverAPI{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		p := quotePost{path: r.Method + " " + r.URL.Path, header: r.Header.Clone()}
		_ = json.Unmarshal(text, &p.body)
		d.mu.Lock()
		d.posts = append(d.posts, p)
		d.mu.Unlock()
		if p.body["searchRequestId"] == "gone" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, "the search is over")
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"result": "Success of " + fmt.Sprint(p.body["searchRequestId"])})
	}))
	t.Cleanup(d.Close)
	return d
}

// of returns the post with a search id.
func (d *driverAPI) of(t testing.TB, search string) quotePost {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.posts, func(p quotePost) bool { return p.body["searchRequestId"] == search })
	if i < 0 {
		t.Fatalf("the driver API got nothing of %s", search)
	}
	return d.posts[i]
}
