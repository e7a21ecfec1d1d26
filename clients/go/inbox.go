package godwit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	pb "godwit.dev/godwit/api/godwitpb"
)

// Action is a choice that a kept notification offers.
type Action struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	URL   string `json:"url,omitempty"` // page or app that it opens; empty: the choice is a reply
}

// InboxNews are the counts of an inbox after a change.
type InboxNews struct {
	Unseen  int          `json:"unseen"`
	Unread  int          `json:"unread"`
	Changed []string     `json:"changed"`          // ids of what has changed, at most 100
	More    bool         `json:"more"`             // more has changed
	Marked  []InboxState `json:"marked,omitempty"` // marks of changed items that have neither come nor gone, at most 10
}

// InboxState is what an item of an inbox is.
type InboxState struct {
	ID       string `json:"id"`
	Seen     bool   `json:"seen,omitempty"`
	Read     bool   `json:"read,omitempty"`
	Archived bool   `json:"archived,omitempty"`
	Pinned   bool   `json:"pinned,omitempty"`
	Answered string `json:"answered,omitempty"` // id of the action that was chosen
}

func inboxFromProto(p *pb.Inbox) *InboxNews {
	if p == nil {
		return nil
	}
	news := &InboxNews{Unseen: int(p.Unseen), Unread: int(p.Unread), Changed: p.Changed, More: p.More}
	for _, m := range p.Marked {
		news.Marked = append(news.Marked, InboxState{m.Id, m.Seen, m.Read, m.Archived, m.Pinned, m.Answered})
	}
	return news
}

// inboxChanged tells what a frame has told.
func (l *listener) inboxChanged(news *InboxNews) {
	if news != nil && l.opts.inbox != nil {
		l.opts.inbox(*news)
	}
}

// InboxCounts are the counts of an inbox.
type InboxCounts struct {
	Unseen int `json:"unseen"` // came since the list was last opened
	Unread int `json:"unread"`
	Total  int `json:"total"` // archived ones too
	// Categories has those that have items; the empty name is of items without a category.
	Categories map[string]InboxCount `json:"categories"`
}

// InboxCount are the counts of a category.
type InboxCount struct {
	Unseen int `json:"unseen"`
	Unread int `json:"unread"`
}

// InboxItem is a kept notification.
type InboxItem struct {
	ID          string    `json:"id"`
	Title       string    `json:"title"`
	Body        string    `json:"body"`
	Category    string    `json:"category"`
	Data        []byte    `json:"-"` // JSON, text or bytes, as ContentType says
	ContentType string    `json:"-"`
	Actions     []Action  `json:"actions"`
	CreatedAt   time.Time `json:"created_at"`
	KeptUntil   time.Time `json:"kept_until"`
	SeenAt      time.Time `json:"seen_at"` // zero: not yet; so are the next two
	ReadAt      time.Time `json:"read_at"`
	ArchivedAt  time.Time `json:"archived_at"`
	Pinned      bool      `json:"pinned"`
	Answered    string    `json:"answered"` // id of the action that was chosen; empty: none
	AnsweredAt  time.Time `json:"answered_at"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (it *InboxItem) UnmarshalJSON(b []byte) error {
	type plain InboxItem
	w := struct {
		*plain
		Data        json.RawMessage `json:"data"`
		DataBase64  []byte          `json:"data_base64"`
		ContentType string          `json:"content_type"`
	}{plain: (*plain)(it)}
	err := json.Unmarshal(b, &w)
	if err == nil {
		it.Data, it.ContentType, err = readData(w.Data, w.DataBase64, w.ContentType)
	}
	return err
}

// InboxQuery selects a page of an inbox.
type InboxQuery struct {
	State    string  // all (default: what is not archived), unseen, unread, archived or pinned
	Category *string // nil: any; empty: items without a category
	Limit    int     // 0: 100; at most 1,000
	Cursor   string  // NextCursor of the page before
}

// InboxPage is a page of an inbox, newest first, with the counts of the whole inbox in the same moment.
type InboxPage struct {
	InboxCounts
	Items []InboxItem `json:"items"`
	// Until says what this page and those before it have listed, for MarkInboxAll.
	Until      string `json:"until"`
	NextCursor string `json:"next_cursor"` // empty: this is the last page
}

// Inbox reads a page of a recipient's inbox. An API key reads anybody's, a client's token its own.
func (c *Client) Inbox(ctx context.Context, recipient string, q InboxQuery) (InboxPage, error) {
	var p InboxPage
	query := c.inboxOf(recipient)
	for name, value := range map[string]string{"state": q.State, "cursor": q.Cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Category != nil {
		query.Set("category", *q.Category)
	}
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	if err := c.doJSON(ctx, request{method: http.MethodGet, path: pathTo("inbox"), query: query}, nil, &p); err != nil {
		return p, fmt.Errorf("read the inbox of %s: %w", recipient, err)
	}
	return p, nil
}

// InboxCounts reads the counts of a recipient's inbox.
func (c *Client) InboxCounts(ctx context.Context, recipient string) (InboxCounts, error) {
	var counts InboxCounts
	if err := c.doJSON(ctx, request{method: http.MethodGet, path: pathTo("inbox", "counts"), query: c.inboxOf(recipient)}, nil, &counts); err != nil {
		return counts, fmt.Errorf("count the inbox of %s: %w", recipient, err)
	}
	return counts, nil
}

// InboxMark says what changes of an item; nil: it stays. A read or archived item was seen.
type InboxMark struct {
	Seen     *bool `json:"seen,omitempty"`
	Read     *bool `json:"read,omitempty"`
	Archived *bool `json:"archived,omitempty"`
	Pinned   *bool `json:"pinned,omitempty"`
	// Answered chooses an action of the item, as a reply to the notification does, and makes the item read. The first answer stays. Empty: none.
	Answered string `json:"answered,omitempty"`
}

// MarkInbox changes an item of a recipient's inbox and returns it, with the counts. If the inbox does not have it, the error is an *Error of status 404.
func (c *Client) MarkInbox(ctx context.Context, recipient, id string, m InboxMark) (InboxItem, InboxCounts, error) {
	var answer struct {
		InboxCounts
		Item InboxItem `json:"item"`
	}
	if err := c.doJSON(ctx, request{method: http.MethodPost, path: pathTo("inbox", id), query: c.inboxOf(recipient)}, m, &answer); err != nil {
		return answer.Item, answer.InboxCounts, fmt.Errorf("mark %s in the inbox of %s: %w", id, recipient, err)
	}
	return answer.Item, answer.InboxCounts, nil
}

// MarkInboxAll marks everything that is not archived, or what a page has listed with those before it, as seen, read or archived.
func (c *Client) MarkInboxAll(ctx context.Context, recipient, mark, until string) (InboxCounts, error) {
	var counts InboxCounts
	body := map[string]string{}
	if until != "" {
		body["until"] = until
	}
	if err := c.doJSON(ctx, request{method: http.MethodPost, path: pathTo("inbox", mark), query: c.inboxOf(recipient)}, body, &counts); err != nil {
		return counts, fmt.Errorf("mark the inbox of %s as %s: %w", recipient, mark, err)
	}
	return counts, nil
}

// inboxOf names the recipient: by to for an API key; a token names its own, and a development server's clients name themselves.
func (c *Client) inboxOf(recipient string) url.Values {
	if c.key != "" {
		return url.Values{"to": {recipient}}
	}
	return url.Values{"recipient": {recipient}}
}
