package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/godwitpb"
	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/test/blackbox"
)

// describe answers with the request, and with the status that its path ends with.
func describe(_ context.Context, r *godwit.Request) (*godwit.Answer, error) {
	a := &godwit.Answer{Status: 200, ContentType: "application/json", Header: http.Header{"X-Two": {"a", "b"}, "Set-Cookie": {"theme=dark", "godwit=x"}, "Clear-Site-Data": {"*"}, "Content-Security-Policy": {"default-src 'self'"}}}
	if _, err := fmt.Sscanf(r.Path, "/status/%d", &a.Status); err == nil && a.Status == 299 {
		a.Status, a.ContentType = 200, "multipart/x-mixed-replace; boundary=x"
	}
	r.Header.Del("Expect") // of a large body over HTTP
	if len(r.Data) > 64<<10 {
		r.Data = fmt.Append(nil, len(r.Data), " bytes")
	}
	var err error
	a.Data, err = json.Marshal(map[string]any{
		"subject": r.Subject, "method": r.Method, "path": r.Path, "query": r.Query, "header": r.Header, "type": r.ContentType, "data": r.Data,
	})
	return a, err
}

// gatewayAnswer is an answer through the gateway, or the problem in its place.
type gatewayAnswer struct {
	Status  int
	Type    string
	Header  http.Header
	Body    string
	Problem blackbox.Problem
}

// gatewayCalls are calls that both gateways answer.
var gatewayCalls = map[string]*godwitpb.CallRequest{
	"a page":                    {Service: "shop"},
	"a path and a query":        {Service: "shop", Path: "/a%2Fb/c.d//e", Query: "q=1&q=%20x&app=demo"},
	"headers":                   {Service: "shop", Headers: fields("X-One", "1", "x-two", "a", "X-Two", "b", "Accept", "text/html", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
	"headers about the caller":  {Service: "shop", Headers: fields("Godwit-Key", "k", "X-Forwarded-For", "1.2.3.4", "Cookie", "a=1; godwit=x", "Authorization", "Bearer guess", "Connection", "X-Hop", "X-Hop", "1")},
	"a body":                    {Service: "shop", Method: "POST", ContentType: "text/plain", Data: []byte("hello")},
	"a body without a type":     {Service: "shop", Method: "PATCH", Path: "/x", Data: []byte{0, 0xff}},
	"the largest body":          {Service: "shop", Method: "PUT", Path: "/status/204", Data: bytes.Repeat([]byte("x"), 1<<20)},
	"HEAD":                      {Service: "shop", Method: "HEAD", Path: "/x"},
	"another method":            {Service: "shop", Method: "PURGE", Path: "/status/418"},
	"no content":                {Service: "shop", Path: "/status/204"},
	"not modified":              {Service: "shop", Path: "/status/304"},
	"a type that is refused":    {Service: "shop", Path: "/status/299"},
	"a service that nobody has": {Service: "none", Method: "POST", Data: []byte("1")},
	"a bad service":             {Service: "a..b"},
	"a body that is too large":  {Service: "shop", Method: "POST", Data: make([]byte, 1<<20+1)},
	"headers that are too long": {Service: "shop", Headers: fields("X-A", strings.Repeat("a", 5000), "X-B", strings.Repeat("b", 5000))},
	"a bad content type":        {Service: "shop", Method: "POST", ContentType: strings.Repeat("x", 129), Data: []byte("1")},
	"another app":               {Service: "shop", App: "nowhere"},
}

func fields(pairs ...string) (list []*godwitpb.HeaderField) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, &godwitpb.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return list
}

func (w *rpcWorld) callOverHTTP(secret string, c *godwitpb.CallRequest) (a gatewayAnswer) {
	w.Helper()
	address := "http://" + w.s.HTTP + "/gw/" + c.GetService() + "/" + strings.TrimPrefix(c.GetPath(), "/")
	query := c.GetQuery()
	if c.GetApp() != "" {
		query = "app=" + c.GetApp()
	}
	if query != "" {
		address += "?" + query
	}
	req, err := http.NewRequestWithContext(w.Context(), c.GetMethod(), address, bytes.NewReader(c.GetData()))
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range c.GetHeaders() {
		req.Header.Add(f.GetName(), f.GetValue())
	}
	req.Header["User-Agent"] = nil
	if c.GetContentType() != "" {
		req.Header.Set("Content-Type", c.GetContentType())
	}
	if req.Header.Del("Authorization"); secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	if len(c.GetData()) > 64<<10 { // a server that refuses the call does not read the body, and the write of it would fail
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true, ExpectContinueTimeout: blackbox.Patience}).RoundTrip(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	if p := (&blackbox.Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}).Problem(); p.Type != "" {
		return gatewayAnswer{Problem: p}
	}
	a = gatewayAnswer{Status: resp.StatusCode, Type: resp.Header.Get("Content-Type"), Header: resp.Header, Body: string(body)}
	if c.GetApp() != "" { // over HTTP it is in the query
		a.Body = strings.Replace(a.Body, `"query":"`+query+`"`, `"query":""`, 1)
	}
	for _, name := range []string{"Content-Type", "Date", "Connection"} {
		a.Header.Del(name)
	}
	if c.GetMethod() != http.MethodHead {
		a.Header.Del("Content-Length")
	}
	// A browser shows the answers over HTTP: they are confined to the gateway's path and to a sandbox.
	if csp := a.Header["Content-Security-Policy"]; len(csp) > 0 && csp[0] == "sandbox" {
		a.Header["Content-Security-Policy"] = csp[1:]
	}
	if len(a.Header["Content-Security-Policy"]) == 0 {
		delete(a.Header, "Content-Security-Policy")
	}
	return a
}

func (w *rpcWorld) callByRPC(secret string, c *godwitpb.CallRequest) (gatewayAnswer, codes.Code) {
	w.Helper()
	var trailer metadata.MD
	got, err := godwitpb.NewGatewayClient(w.cc).Call(withKey(w.Context(), secret), c, grpc.Trailer(&trailer))
	if err != nil {
		return gatewayAnswer{Problem: problemOf(w, trailer)}, status.Code(err)
	}
	return gatewayAnswer{Status: int(got.GetStatus()), Type: got.GetContentType(), Header: headers(got.GetHeaders()), Body: string(got.GetData())}, codes.OK
}

func TestGatewayByRPCAnswersAsOverHTTP(t *testing.T) {
	t.Parallel()
	w := startRPC(t)
	w.serveEcho("shop.>", "open.>")
	w.api.Call(t, http.MethodPut, "/v1/gateway/shop", map[string]any{"cookies": true}, nil)
	w.api.Call(t, http.MethodPut, "/v1/gateway/open", map[string]any{"access": "public"}, nil)
	reader, client := w.key("read"), w.s.Token(t, "demo", "rider")
	secrets := map[string]string{"a key": dev, "a key of another role": reader, "a client's token": client, "nothing": "", "a guess": "guess"}
	for _, name := range slices.Sorted(maps.Keys(gatewayCalls)) {
		for who, secret := range secrets {
			if gatewayCalls[name].GetMethod() == http.MethodHead && secret != dev {
				continue // over HTTP the problem has no body
			}
			want := w.callOverHTTP(secret, gatewayCalls[name])
			got, code := w.callByRPC(secret, gatewayCalls[name])
			if !reflect.DeepEqual(got, want) || (code == codes.OK) != (want.Problem.Type == "") {
				t.Errorf("%s with %s: by RPC %s and\n%v, over HTTP\n%v", name, who, code, got, want)
			}
		}
	}
	for who, secret := range secrets {
		open := &godwitpb.CallRequest{Service: "open", Path: "/x"}
		want := w.callOverHTTP(secret, open)
		if got, _ := w.callByRPC(secret, open); !reflect.DeepEqual(got, want) {
			t.Errorf("a service for anyone with %s: by RPC\n%v, over HTTP\n%v", who, got, want)
		}
	}
}

// Over HTTP, net/http refuses what is no request before a handler sees it.
func TestGatewayByRPCRefusesWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	w := startRPC(t)
	for field, c := range map[string]*godwitpb.CallRequest{
		"method":   {Service: "shop", Method: "GET /"},
		"path":     {Service: "shop", Path: "x"},
		"path ":    {Service: "shop", Path: "/a b"},
		"path  ":   {Service: "shop", Path: "/%zz"},
		"path   ":  {Service: "shop", Path: "/a?b"},
		"query":    {Service: "shop", Query: "a b"},
		"query ":   {Service: "shop", Query: "a\r\nX: 1"},
		"headers":  {Service: "shop", Headers: fields("X-A", "a\r\nX-B: b")},
		"headers ": {Service: "shop", Headers: fields("X A", "a")},
	} {
		got, code := w.callByRPC(dev, c)
		if code != codes.InvalidArgument || got.Problem.Field != strings.TrimSpace(field) {
			t.Errorf("%v is answered %s, %+v", c, code, got.Problem)
		}
	}
}

// serveEcho serves subjects until the test ends.
func (w *rpcWorld) serveEcho(subjects ...string) {
	w.Helper()
	c, err := godwit.New("http://"+w.s.HTTP, godwit.WithAPIKey(dev))
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.Context())
	serving, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- c.Serve(ctx, "worker", subjects, describe, godwit.OnServing(func() { close(serving) }))
	}()
	w.Cleanup(func() { stop(); <-ended })
	select {
	case <-serving:
	case err := <-ended:
		w.Fatal(err)
	}
}
