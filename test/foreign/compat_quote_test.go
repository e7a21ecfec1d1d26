package foreign

import (
	"context"
	"fmt"
	"maps"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func grpcCode(err error) codes.Code { return status.Code(err) }

func contextWith(ctx context.Context, md ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, md...)
}

func quoteRequest(search string, fare float64, response string) proto.Message {
	m := message("QuoteRequest")
	for path, value := range map[string]any{
		"notification_source": "GRPC", "rendered_at": "2026-11-20T23:23:58.654Z", "responded_at": "2026-11-20T23:24:01Z",
		"search_request_id": search, "offered_fare": fare, "response": response, "slot_number": int32(3),
	} {
		set(m, path, value)
	}
	return m
}

// quotes answers a quote over each of the methods and checks the requests that the driver API received.
func quotes(w *world) {
	client := uuid()
	headers := map[string]string{
		"x-package": "in.juspay.nammayatripartner", "x-bundle-version": "1.2.3", "x-client-version": "4.5.6", "x-config-version": "7",
		"x-react-bundle-version": "8", "x-device": "Pixel/7",
	}
	md := []string{"token", tokenOf(client)}
	for name, value := range headers {
		md = append(md, name, value)
	}
	for _, method := range []string{quoteRespond, quoteStreamWithID, quoteWithID} {
		for _, c := range []struct {
			response string
			fare     float64
			sent     any
		}{{"Accept", 120.5, 120.5}, {"Accept", 0, nil}, {"Reject", 120.5, nil}} {
			search := fmt.Sprintf("%s of %s %v", method, c.response, c.fare)
			st, reason, id, err := quote(w.Context(), w, w.addr, method, quoteRequest(search, c.fare, c.response), md...)
			if err != nil || st != "Success of "+search || reason != "Success" || method != quoteRespond && id != search {
				w.Errorf("%s: %q %q %q %v", search, st, reason, id, err)
				continue
			}
			post := w.redis.driver.of(w, search)
			want := map[string]any{
				"notificationSource": "GRPC", "renderedAt": "2026-11-20T23:23:58.654Z", "respondedAt": "2026-11-20T23:24:01Z",
				"searchRequestId": search, "offeredFare": c.sent, "response": c.response, "slotNumber": 3.0,
			}
			if post.path != "POST /driver/quote/respond" || !maps.Equal(post.body, want) {
				w.Errorf("the driver API got %s %v, want %v", post.path, post.body, want)
			}
			for name, value := range headers {
				if got := post.header.Get(name); got != value {
					w.Errorf("%s is %q, want %q", name, got, value)
				}
			}
			if got := post.header.Get("token"); got != tokenOf(client) {
				w.Errorf("the token is %q", got)
			}
		}
		st, reason, _, err := quote(w.Context(), w, w.addr, method, quoteRequest("gone", 1, "Accept"), md...)
		if err != nil || st != "error" || reason != "the search is over" {
			w.Errorf("%s of a search that is over: %q %q %v", method, st, reason, err)
		}
	}
}
