package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/notify/inbox"
)

func (p *program) inboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "See what a recipient's inbox keeps; mark it, watch it",
		Long: `See what people see: the notifications that publishes or categories keep in a recipient's inbox after their delivery, whether they were
seen and read, and how many were not.`,
		Args: subcommandOnly,
		RunE: help,
	}
	cmd.AddCommand(p.inboxListCommand(), p.inboxReadCommand(), p.inboxWatchCommand())
	return cmd
}

func (p *program) inboxListCommand() *cobra.Command {
	limit, state, category := 100, "", ""
	cmd := &cobra.Command{
		Use:   "list RECIPIENT",
		Short: "List what a recipient's inbox keeps, newest first, with its counts",
		Args:  names("recipient"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := godwit.InboxQuery{State: state}
			if cmd.Flags().Changed("category") {
				q.Category = &category
			}
			return p.withClient(func(c *godwit.Client) error { return p.listInbox(cmd.Context(), c, args[0], q, limit) })
		},
	}
	limitFlag(cmd, &limit)
	cmd.Flags().StringVar(&state, "state", "", strings.Join(inbox.StateNames(), ", ")+" (default all: what is not archived)")
	cmd.Flags().StringVar(&category, "category", "", "only items of this category; '' is those without one")
	return cmd
}

// listInbox prints at most limit items; 0: all.
func (p *program) listInbox(ctx context.Context, c *godwit.Client, recipient string, q godwit.InboxQuery, limit int) error {
	var rows [][]string
	var last godwit.InboxPage
	for n := 0; ; {
		q.Limit = inbox.MaxKept
		if limit > 0 {
			q.Limit = min(limit-n, inbox.MaxKept)
		}
		page, err := c.Inbox(ctx, recipient, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			it := &page.Items[i]
			if p.json {
				if err := p.line(itemJSON(it)); err != nil {
					return err
				}
			}
			rows = append(rows, []string{clean(it.ID), clean(it.Title), clean(it.Category), moment(it.CreatedAt), stateOf(it)})
		}
		n += len(page.Items)
		if last = page; page.NextCursor == "" || limit > 0 && n >= limit {
			break
		}
		q.Cursor = page.NextCursor
	}
	if p.json {
		return nil
	}
	if err := p.table([]string{"ID", "TITLE", "CATEGORY", "CREATED", "STATE"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "%d unseen, %d unread of %d.\n", last.Unseen, last.Unread, last.Total)
	return err
}

// itemJSON is an item as the API writes it.
func itemJSON(it *godwit.InboxItem) any {
	data := json.RawMessage("null")
	if json.Valid(it.Data) {
		data = it.Data
	} else if len(it.Data) > 0 {
		data, _ = json.Marshal(string(it.Data)) // a text
	}
	return struct {
		*godwit.InboxItem
		Data json.RawMessage `json:"data"`
	}{it, data}
}

func stateOf(it *godwit.InboxItem) string {
	state := "unseen"
	switch {
	case !it.ArchivedAt.IsZero():
		state = "archived"
	case !it.ReadAt.IsZero():
		state = "read"
	case !it.SeenAt.IsZero():
		state = "seen"
	}
	if it.Pinned {
		state += ", pinned"
	}
	if it.Answered != "" {
		state += ", answered " + clean(it.Answered)
	}
	return state
}

func (p *program) inboxReadCommand() *cobra.Command {
	var all, unread, archive bool
	cmd := &cobra.Command{
		Use:   "read RECIPIENT [ID…]",
		Short: "Mark notifications in a recipient's inbox as read",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly("recipient")(cmd, args)
			}
			if all == (len(args) > 1) {
				return usagef("name notifications, or give --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				counts, err := markInbox(cmd.Context(), c, args[0], args[1:], unread, archive)
				if err != nil {
					return err
				}
				if p.json {
					return p.line(counts)
				}
				_, err = fmt.Fprintf(p.stdout, "%d unseen, %d unread of %d.\n", counts.Unseen, counts.Unread, counts.Total)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "everything that is not archived")
	cmd.Flags().BoolVar(&unread, "unread", false, "mark them as not read")
	cmd.Flags().BoolVar(&archive, "archive", false, "put them away, too")
	cmd.MarkFlagsMutuallyExclusive("all", "unread")
	return cmd
}

func markInbox(ctx context.Context, c *godwit.Client, recipient string, ids []string, unread, archive bool) (counts godwit.InboxCounts, err error) {
	if len(ids) == 0 {
		counts, err = c.MarkInboxAll(ctx, recipient, "read", "")
		if err == nil && archive {
			counts, err = c.MarkInboxAll(ctx, recipient, "archived", "")
		}
		return counts, err
	}
	read := !unread
	m := godwit.InboxMark{Read: &read}
	if archive {
		m.Archived = &archive
	}
	for _, id := range ids {
		if _, counts, err = c.MarkInbox(ctx, recipient, id, m); err != nil {
			return counts, err
		}
	}
	return counts, nil
}

func (p *program) inboxWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch RECIPIENT",
		Short: "Print the counts of a recipient's inbox whenever they change",
		Long: `Print the counts of a recipient's inbox whenever something changes in it, until it is interrupted. It only observes: nothing is acknowledged
or marked.`,
		Args: names("recipient"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withClient(func(c *godwit.Client) error {
				tell := func(n godwit.InboxNews) {
					if p.json {
						_ = p.line(n)
						return
					}
					_, _ = fmt.Fprintln(p.stdout, strconv.Itoa(n.Unseen)+" unseen, "+strconv.Itoa(n.Unread)+" unread: "+strings.Join(n.Changed, " "))
				}
				ignore := func(context.Context, *godwit.Notification) error { return nil }
				return c.Listen(cmd.Context(), args[0], ignore, godwit.Peek(), godwit.OnInbox(tell))
			})
		},
	}
}
