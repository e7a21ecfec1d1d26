package public

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/net/idna"
)

// robots matches the User-Agent of programs that fetch links by themselves: previews in chats, search engines, monitors. The names of most
// end a word with bot, crawler, spider or preview; the pattern lists the others. Browsers inside chat apps belong to people.
var robots = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:bot|crawler|spider|slurp|preview|previewer|scraper|unfurl|fetcher|imgproxy|imageproxy)\b` +
		`|externalhit|externalagent|facebookcatalog|vkshare|embedly|iframely|cardyb|kakaotalk-scrap|line-poker|^tumblr/|nuzzel|quora link|ia_archiver|w3c_|/web/snippet` +
		`|mediapartners|google-(?:read-aloud|inspectiontool|safety|structured|pagerenderer)|headlesschrome|lighthouse` +
		`|^whatsapp/|^viber/|^signal[-/]|^snapchat/|^mastodon|^pleroma|^misskey|^synapse|^zulip|^rocket\.chat`)
})

// phones matches names of phones that end like a robot's.
var phones = regexp.MustCompile(`(?i)\bcubot\b`)

// byPerson reports whether a person has opened a link, as far as the request shows. HEAD requests, pages that browsers prefetch, and robots
// that make previews in chats do not count. A request without a User-Agent counts as a person's.
func byPerson(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		if v := strings.ToLower(r.Header.Get(name)); strings.Contains(v, "prefetch") || strings.Contains(v, "prerender") || strings.Contains(v, "preview") {
			return false
		}
	}
	return !robots().MatchString(phones.ReplaceAllString(r.UserAgent(), ""))
}

// asciiURL encodes a URL for a header: other scripts in a host by IDNA, other non-ASCII characters by percent signs. The rest stays byte
// for byte.
func asciiURL(link string) string {
	scheme, rest, ok := strings.Cut(link, "://")
	if !ok {
		return escapeBytes(link)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, port := rest[:end], ""
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 {
		host, port = host[:colon], host[colon:]
	}
	if escapeBytes(host) != host {
		if ascii, err := idna.Lookup.ToASCII(host); err == nil {
			host = ascii
		}
	}
	return scheme + "://" + escapeBytes(host) + port + escapeBytes(rest[end:])
}

func escapeBytes(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
