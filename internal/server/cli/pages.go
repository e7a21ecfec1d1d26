package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	godwit "godwit.dev/godwit/clients/go"
)

// mostAPage is the API's limit of items on a page.
const mostAPage = 1000

// unpaged is the limit for lists that the API returns as a whole.
const unpaged = -1

// pages calls do for each item of a list of the API, page by page, for at most limit items; 0: for all.
func pages(ctx context.Context, c *godwit.Client, path string, q url.Values, limit int, do func(item json.RawMessage) error) error {
	if q == nil {
		q = url.Values{}
	}
	for left := limit; ; {
		size := mostAPage
		if limit > 0 {
			size = min(left, mostAPage)
		}
		if limit != unpaged {
			q.Set("limit", strconv.Itoa(size))
		}
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next_cursor"`
		}
		if err := c.Call(ctx, godwit.Call{Method: http.MethodGet, Path: path, Query: q}, &page); err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := do(item); err != nil {
				return err
			}
		}
		left -= len(page.Items)
		if page.Next == "" || limit > 0 && left <= 0 {
			return nil
		}
		q.Set("cursor", page.Next)
	}
}

// list prints a list of the API: with --json the API's answer, else a table.
func list[T any](ctx context.Context, p *program, c *godwit.Client, path string, q url.Values, limit int, headings []string, row func(*T) []string) error {
	rows := [][]string{}
	err := pages(ctx, c, path, q, limit, func(item json.RawMessage) error {
		if p.json {
			return p.line(item)
		}
		var v T
		if err := json.Unmarshal(item, &v); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		rows = append(rows, row(&v))
		return nil
	})
	if err != nil || p.json {
		return err
	}
	return p.table(headings, rows)
}
