package nammayatri

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/api/nammayatripb"
)

// Limits of sending answers to the driver API.
const (
	quotePatience = 10 * time.Second // for one answer, including the wait for its turn
	quotesAtOnce  = 256
	quoteBytes    = 64 << 10 // of what it says
)

// forwarded are the metadata keys that are sent to the driver API as headers.
var forwarded = []string{
	"token", "x-package", "x-bundle-version", "x-client-version", "x-config-version", "x-react-bundle-version", "x-device",
}

// driverAPI is the client of the service that receives drivers' answers to offers.
type driverAPI struct {
	base string
	http *http.Client
	turn chan struct{} // has an element for each answer under way
}

func newDriverAPI(base string) *driverAPI {
	return &driverAPI{
		base: strings.TrimRight(base, "/"), http: internalClient(quotePatience, quotesAtOnce), turn: make(chan struct{}, quotesAtOnce),
	}
}

func (d *driverAPI) close() { d.http.CloseIdleConnections() }

// answer is a driver's answer in the driver API's JSON.
type answer struct {
	Source    string   `json:"notificationSource"`
	Rendered  string   `json:"renderedAt"`
	Responded string   `json:"respondedAt"`
	Search    string   `json:"searchRequestId"`
	Fare      *float64 `json:"offeredFare"`
	Response  string   `json:"response"`
	Slot      int32    `json:"slotNumber"`
}

func answerOf(r *nammayatripb.QuoteRequest) answer {
	a := answer{
		Source: r.GetNotificationSource(), Rendered: r.GetRenderedAt(), Responded: r.GetRespondedAt(), Search: r.GetSearchRequestId(),
		Response: r.GetResponse(), Slot: r.GetSlotNumber(),
	}
	if f := r.GetOfferedFare(); f != 0 && a.Response != "Reject" && !math.IsNaN(f) && !math.IsInf(f, 0) {
		a.Fare = &f
	}
	return a
}

// failed is the result of an answer that the driver API has not accepted; the reason explains it.
const failed = "error"

// respond sends one answer. Errors do not end the stream; the app gets them in the answer's result.
func (d *driverAPI) respond(ctx context.Context, md metadata.MD, r *nammayatripb.QuoteRequest) (result, reason string) {
	if d.base == "" {
		return failed, "no driver API is set up (driver_api_url)"
	}
	ctx, cancel := context.WithTimeout(ctx, quotePatience)
	defer cancel()
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return failed, fmt.Sprintf("too many answers wait for the driver API; this one had no turn within %s", quotePatience)
	}
	body, err := json.Marshal(answerOf(r))
	if err != nil {
		return failed, "the answer cannot be written as JSON"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+"/driver/quote/respond", bytes.NewReader(body))
	if err != nil {
		return failed, "the driver API's URL is not valid"
	}
	req.Header.Set("Content-Type", "application/json")
	for _, name := range forwarded {
		if v := md.Get(name); len(v) > 0 {
			req.Header.Set(name, v[0])
		}
	}
	res, err := d.http.Do(req)
	if err != nil {
		return failed, "connection error: " + reasonOf(err)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	said, err := io.ReadAll(io.LimitReader(res.Body, quoteBytes))
	if err != nil {
		return failed, "connection error: " + reasonOf(err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return failed, strings.ToValidUTF8(string(said), "�")
	}
	var ok struct {
		Result *string `json:"result"`
	}
	if err := json.Unmarshal(said, &ok); err != nil || ok.Result == nil {
		return failed, fmt.Sprintf("the driver API answered %d %s without a result", res.StatusCode, http.StatusText(res.StatusCode))
	}
	return *ok.Result, "Success"
}

// reasonOf returns an error's text without the URL, which the app must not see.
func reasonOf(err error) string {
	var at *url.Error
	switch {
	case !errors.As(err, &at):
	case at.Timeout():
		return "the driver API did not answer in time"
	default:
		err = at.Err
	}
	return strings.ToValidUTF8(err.Error(), "�")
}

// quotes serves the methods of notification_service.Notification that are not sessions.
type quotes struct {
	nammayatripb.UnimplementedNotificationServer
	s *Service
}

// QuoteRespondWithId hands over one answer.
func (q *quotes) QuoteRespondWithId(ctx context.Context, r *nammayatripb.QuoteRequest) (*nammayatripb.QuoteResponseWithId, error) { //nolint:staticcheck // named as the service has it
	begun := time.Now()
	md, _ := metadata.FromIncomingContext(ctx)
	if _, err := q.s.auth.admit(ctx, firstOf(md)); err != nil {
		q.s.cfg.Metrics.refused(nammayatripb.Notification_QuoteRespondWithId_FullMethodName, status.Convert(err), time.Since(begun))
		return nil, err
	}
	result, reason := q.s.api.respond(ctx, md, r)
	q.s.cfg.Metrics.begun(nammayatripb.Notification_QuoteRespondWithId_FullMethodName, time.Since(begun))
	return &nammayatripb.QuoteResponseWithId{Status: result, Reason: reason, SearchRequestId: r.GetSearchRequestId()}, nil
}

// QuoteRespond sends a stream of answers to the driver API.
func (q *quotes) QuoteRespond(s grpc.BidiStreamingServer[nammayatripb.QuoteRequest, nammayatripb.QuoteResponse]) error {
	return q.each(s, nammayatripb.Notification_QuoteRespond_FullMethodName, s.Recv, func(_ *nammayatripb.QuoteRequest, result, reason string) error {
		return s.Send(&nammayatripb.QuoteResponse{Status: result, Reason: reason})
	})
}

// QuoteRespondStreamWithId sends a stream of answers to the driver API and returns a result for each, with the answer's
// id.
func (q *quotes) QuoteRespondStreamWithId(s grpc.BidiStreamingServer[nammayatripb.QuoteRequest, nammayatripb.QuoteResponseWithId]) error { //nolint:staticcheck // named as the service has it
	return q.each(s, nammayatripb.Notification_QuoteRespondStreamWithId_FullMethodName, s.Recv, func(r *nammayatripb.QuoteRequest, result, reason string) error {
		return s.Send(&nammayatripb.QuoteResponseWithId{Status: result, Reason: reason, SearchRequestId: r.GetSearchRequestId()})
	})
}

// each sends the answers of a stream one by one, until the app has sent its last or the server stops.
func (q *quotes) each(
	s grpc.ServerStream, path string, recv func() (*nammayatripb.QuoteRequest, error), send func(r *nammayatripb.QuoteRequest, result, reason string) error,
) error {
	begun := time.Now()
	ctx := s.Context()
	md, _ := metadata.FromIncomingContext(ctx)
	if _, err := q.s.auth.admit(ctx, firstOf(md)); err != nil {
		q.s.cfg.Metrics.refused(path, status.Convert(err), time.Since(begun))
		return err
	}
	if err := s.SendHeader(nil); err != nil {
		return err
	}
	q.s.cfg.Metrics.begun(path, time.Since(begun))
	next := make(chan *nammayatripb.QuoteRequest)
	ended := make(chan error, 1)
	go q.receive(ctx, recv, next, ended)
	for {
		select {
		case r := <-next:
			result, reason := q.s.api.respond(ctx, md, r)
			if err := send(r, result, reason); err != nil {
				return err
			}
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-q.s.over:
			return nil
		}
	}
}

// receive passes requests to next until the stream ends, whose error it passes to ended.
func (q *quotes) receive(ctx context.Context, recv func() (*nammayatripb.QuoteRequest, error), next chan<- *nammayatripb.QuoteRequest, ended chan<- error) {
	for {
		r, err := recv()
		if err != nil {
			ended <- err
			return
		}
		select {
		case next <- r:
		case <-ctx.Done():
			return
		case <-q.s.over:
			return
		}
	}
}

// firstOf returns a function that returns the first value of a metadata key.
func firstOf(md metadata.MD) func(string) string {
	return func(name string) string {
		if v := md.Get(name); len(v) > 0 {
			return v[0]
		}
		return ""
	}
}
