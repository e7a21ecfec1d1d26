package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/foreign"
)

// Previewer is a Kind that can show what the rows of its tables would become. It changes nothing at the source.
type Previewer interface {
	// Preview reads the first rows of each table. It fails if the server does not answer.
	Preview(ctx context.Context, t Target) ([]Sample, error)
}

// Sample has the first rows of a table.
type Sample struct {
	Table string
	// Entries are made as those of a feed: publishes with content, puts and invalid ones. The Text of each is its row as JSON.
	Entries []Entry
	Err     error // why there are no rows, or no more
}

// Preview is what the rows of a source's tables would become, without secrets.
type Preview struct {
	Tables []PreviewTable `json:"tables"`
	Error  string         `json:"error,omitempty"` // why the server of the source cannot be read
}

// PreviewTable has what the first rows of a table would become.
type PreviewTable struct {
	Table string       `json:"table"`
	Rows  []PreviewRow `json:"rows"`
	Error string       `json:"error,omitempty"` // why there are no rows, or no more
}

// PreviewRow is a row, and the entry that it would become.
type PreviewRow struct {
	From  json.RawMessage `json:"from"`
	Entry json.RawMessage `json:"entry,omitempty"` // as Entry.Body has it
	Error string          `json:"error,omitempty"` // why the row would go to quarantine
}

// Preview shows what the rows of a source's tables would become after a change. It stores nothing. Values that the change lacks are those
// of the source.
func (s *Service) Preview(ctx context.Context, app, name string, c Change) (Preview, error) {
	kind, k, err := s.settle(app, name, c)
	if err != nil {
		return Preview{}, err
	}
	p, ok := k.(Previewer)
	if !ok {
		return Preview{}, notification.BadField("kind", "a source of the kind %s has no mapping of tables to preview", kind)
	}
	one, err := s.sources.Get(setting.Place{App: app, Name: name})
	if err != nil && len(c.Values) == 0 {
		return Preview{}, err
	}
	values := one.Values.Update(c.Values, k.Fields())
	if err := k.Check(values); err != nil {
		return Preview{}, err
	}
	if err := setting.CheckKept(k, one.Values, c.Values, values); err != nil {
		return Preview{}, err
	}
	one = Source{App: app, Name: name, Kind: kind, Values: values, Private: c.Private || one.Private && values.Lead(one.Values, k.Fields())}
	samples, err := p.Preview(ctx, s.target(&one))
	secrets := s.secrets(&one)
	preview := Preview{Tables: make([]PreviewTable, len(samples))}
	if err != nil {
		preview.Error = foreign.Excerpt(err.Error(), secrets...)
	}
	for i := range samples {
		preview.Tables[i] = s.preview(app, &samples[i], secrets)
	}
	return preview, nil
}

func (s *Service) preview(app string, from *Sample, secrets []string) PreviewTable {
	t := PreviewTable{Table: from.Table, Rows: make([]PreviewRow, len(from.Entries))}
	if from.Err != nil {
		t.Error = foreign.Excerpt(from.Err.Error(), secrets...)
	}
	for i := range from.Entries {
		e, row := &from.Entries[i], &t.Rows[i]
		row.From = e.Text
		err := s.refuses(app, e)
		if err == nil {
			row.Entry, err = e.json()
		}
		if err != nil {
			row.Error = err.Error()
		}
	}
	return t
}

// refuses says why an entry would go to quarantine, as far as the entry itself tells.
func (s *Service) refuses(app string, e *Entry) error {
	switch {
	case e.Wrong != nil:
		return e.Wrong
	case e.Put != nil:
		return cmp.Or(e.Put.Key.Check(), e.Put.Put.Check())
	}
	for _, to := range e.Publish.To {
		if err := notification.CheckName("to", to); err != nil {
			return err
		}
	}
	draft := *e.Publish
	_, err := draft.Check(app, s.cfg.Now(), func() string { return "new" })
	return err
}

// json is the entry of a row as Entry.Body has it.
func (e *Entry) json() ([]byte, error) {
	if put := e.Put; put != nil {
		var body struct {
			Put struct {
				Group   string          `json:"group"`
				Object  string          `json:"object"`
				Payload json.RawMessage `json:"payload,omitempty"`
			} `json:"put"`
		}
		body.Put.Group, body.Put.Object, body.Put.Payload = put.Key.Group, put.Key.Object, put.Payload
		return readable(body)
	}
	d := e.Publish
	return readable(struct {
		To       []string        `json:"to"`
		ID       string          `json:"id,omitempty"`
		Title    string          `json:"title,omitempty"`
		Body     string          `json:"body,omitempty"`
		Category string          `json:"category,omitempty"`
		Data     json.RawMessage `json:"data,omitempty"`
	}{d.To, d.ID, d.Content.Title, d.Content.Body, d.Content.Category, d.Content.Data})
}

// readable encodes a value for people, with < > and & as they are.
func readable(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
