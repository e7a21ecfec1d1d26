package template

import (
	"fmt"
	"net/url"
	"strings"
)

// link fills variables into a URL. A space becomes %20, which means a space in a path, a query and a fragment; + means a space only in a
// query.
func link(text string, p Person) string {
	return fillWith(text, p, escapeInURL, escapeFallback)
}

func escapeInURL(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

// escapeFallback escapes only characters that are invalid in any part of a URL: the author may intend slashes and other signs.
func escapeFallback(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c == 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// withUTM adds the suffix to a URL's query. It does not change the URL itself, byte for byte, and skips parameters that the query has
// already.
func withUTM(link, utm string) string {
	if link == "" || utm == "" || strings.HasPrefix(link, "tg:") { // tg: links open Telegram, not a site
		return link
	}
	link, fragment, hasFragment := strings.Cut(link, "#")
	_, query, hasQuery := strings.Cut(link, "?")
	has := names(query)
	var b strings.Builder
	b.WriteString(link)
	for pair := range strings.SplitSeq(utm, "&") {
		if pair == "" || has[name(pair)] {
			continue
		}
		switch {
		case !hasQuery:
			b.WriteByte('?')
			hasQuery = true
		case !strings.HasSuffix(b.String(), "?") && !strings.HasSuffix(b.String(), "&"):
			b.WriteByte('&')
		}
		b.WriteString(pair)
	}
	if hasFragment {
		b.WriteString("#" + fragment)
	}
	return b.String()
}

// names returns the names in a query. Some sites separate its pairs by semicolons.
func names(query string) map[string]bool {
	all := make(map[string]bool)
	for _, pair := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
		all[name(pair)] = true
	}
	return all
}

func name(pair string) string {
	text, _, _ := strings.Cut(pair, "=")
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}
