package endpoint

import (
	"context"
	"encoding/json"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/notify/notification"
)

// exportPage is the number of endpoints that an export reads at once and holds in memory.
const exportPage = 500

// Filter selects endpoints of an app: those in a selection with a status; an empty status means any.
type Filter struct {
	Status    audience.Status
	Selection *audience.Selection
}

// Encoder encodes pages of endpoints, one endpoint a line.
type Encoder struct {
	ContentType string
	encode      func(list []audience.Endpoint) ([]byte, error)
}

// Encoder returns an encoder for "ndjson", which is also the default (""), or "csv". Without addresses, the file contains nothing secret;
// it can be read, but not imported.
func (s *Service) Encoder(ctx context.Context, app, format string, addresses bool) (*Encoder, error) {
	var e Encoder
	switch format {
	case "", "ndjson":
		e = Encoder{"application/x-ndjson", lines}
	case "csv":
		_, names, err := s.Names(ctx, app, audience.MaxTagNames)
		if err != nil {
			return nil, err
		}
		e = Encoder{"text/csv; charset=utf-8", audience.NewTable(names, addresses).Rows}
	default:
		return nil, notification.BadField("format", "%q is none of ndjson, csv", notification.Clip(format))
	}
	if whole := e.encode; !addresses {
		e.encode = func(list []audience.Endpoint) ([]byte, error) {
			for i := range list {
				list[i].Address = nil
			}
			return whole(list)
		}
	}
	return &e, nil
}

func lines(list []audience.Endpoint) (out []byte, err error) {
	for i := range list {
		line, err := json.Marshal(NewView(&list[i]))
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// Export writes all endpoints that match a filter, page by page, in the order of registration. It stops at the first error, its own or
// write's, and returns it.
func (s *Service) Export(ctx context.Context, app string, f Filter, e *Encoder, write func(part []byte) error) error {
	after := int64(0)
	for more := true; more; {
		var list []audience.Endpoint
		var err error
		if list, after, more, err = s.List(ctx, app, f.Status, f.Selection, after, exportPage); err != nil {
			return err
		}
		part, err := e.encode(list)
		if err != nil {
			return err
		}
		if err := write(part); err != nil {
			return err
		}
	}
	return nil
}
