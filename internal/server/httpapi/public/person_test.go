package public

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestOnlyPeopleClick(t *testing.T) {
	const chrome = "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36"
	for agent, person := range map[string]bool{
		chrome: true,
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1":                        true,
		"Mozilla/5.0 (Linux; Android 10; CUBOT X30) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/100.0 Mobile Safari/537.36":                                            true,
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/470.0.0.38.109;FBDV/iPhone14,5]": true,
		"Mozilla/5.0 (Linux; Android 13) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/116.0 Mobile Safari/537.36 MicroMessenger/8.0":                        true,
		"":                              true,
		"curl/8.5.0":                    true,
		"TelegramBot (like TwitterBot)": false,
		"WhatsApp/2.23.20.0":            false,
		"Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)":                false,
		"Slack-ImgProxy (+https://api.slack.com/robots)":                            false,
		"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)": false,
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 facebookexternalhit/1.1 Facebot Twitterbot/1.0": false,
		"Twitterbot/1.0": false,
		"Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)":                                      false,
		"Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 skype-url-preview@microsoft.com":        false,
		"LinkedInBot/1.0 (compatible; Mozilla/5.0; +http://www.linkedin.com)":                                    false,
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                               false,
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0) Chrome/103.0 Safari/537.36": false,
		"Mozilla/5.0 (compatible; vkShare; +http://vk.com/dev/Share)":                                            false,
		"facebookexternalhit/1.1;line-poker/1.0":                                                                 false,
		"meta-externalagent/1.1":                                                                                 false,
		"Mastodon/4.2.8 (http.rb/5.1.1; +https://mastodon.example/)":                                             false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/click/t", nil)
		r.Header.Set("User-Agent", agent)
		if got := byPerson(r); got != person {
			t.Errorf("%q: person %t, want %t", agent, got, person)
		}
		r.Method = http.MethodHead
		if byPerson(r) {
			t.Errorf("HEAD by %q is a click", agent)
		}
	}
	for name, values := range map[string]map[string]bool{
		"Sec-Purpose": {"prefetch": false, "prefetch;prerender": false, "prefetch;anonymous-client-ip": false, "": true},
		"Purpose":     {"prefetch": false}, "X-Purpose": {"preview": false}, "X-Moz": {"prefetch": false},
	} {
		for value, person := range values {
			r := httptest.NewRequest(http.MethodGet, "/v1/click/t", nil)
			r.Header.Set("User-Agent", chrome)
			r.Header.Set(name, value)
			if got := byPerson(r); got != person {
				t.Errorf("%s: %s: person %t, want %t", name, value, got, person)
			}
		}
	}
}

func TestRedirectsKeepTheirURL(t *testing.T) {
	for link, want := range map[string]string{
		"https://example.org/a%2Fb?q=%7E&x=a+b;c#d": "https://example.org/a%2Fb?q=%7E&x=a+b;c#d",
		"https://münchen.example/straße?q=ä":        "https://xn--mnchen-3ya.example/stra%C3%9Fe?q=%C3%A4",
		"https://пример.рф":                         "https://xn--e1afmkfd.xn--p1ai",
		"https://пример.рф:8443/x":                  "https://xn--e1afmkfd.xn--p1ai:8443/x",
		"https://Example.org:443/A b":               "https://Example.org:443/A%20b",
		"https://example.org/\r\nX: y":              "https://example.org/%0D%0AX:%20y",
	} {
		got := asciiURL(link)
		if got != want {
			t.Errorf("%q: %s, want %s", link, got, want)
		}
		if _, err := url.Parse(got); err != nil {
			t.Errorf("%q: %v", link, err)
		}
	}
}
