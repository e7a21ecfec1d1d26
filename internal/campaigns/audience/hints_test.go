package audience

import (
	"strings"
	"testing"
)

func TestUnknownHintsAreDropped(t *testing.T) {
	for said, want := range map[string]string{
		"": "", "nb-NO": "nb-NO", "en_US": "en_US", "en-US@posix": "en-US", "en-US@rg=gbzzzz": "en-US", "th-TH@calendar=buddhist": "th-TH", "de_DE.UTF-8": "de_DE",
		"en-US-u-ca-gregory-hc-h23-nu-latn-rg-gbzzzz": "en-US", "C": "C", "日本語": "", "<script>": "", strings.Repeat("a", 36): "",
	} {
		e := Endpoint{Locale: said}
		if dropped := e.DropUnknownHints(); e.Locale != want || (len(dropped) == 1) != (said != "" && want == "") {
			t.Errorf("locale %q: %q, dropped %q", said, e.Locale, dropped)
		}
	}
	for said, want := range map[string]string{
		"": "", "Europe/Oslo": "Europe/Oslo", ":Europe/Oslo": "Europe/Oslo", "Asia/Calcutta": "Asia/Calcutta", "UTC": "UTC", "Etc/GMT+8": "Etc/GMT+8",
		"-28800": "Etc/GMT+8", "3600": "Etc/GMT-1", "0": "Etc/GMT+0", "GMT+0500": "Etc/GMT-5", "GMT-03:00": "Etc/GMT+3", "UTC+2": "Etc/GMT-2",
		"GMT+0530": "", "GMT+05:30": "", "19800": "", "GMT+15": "", "-99999999": "", "99999999999999999999": "", ":/etc/localtime": "", "Mars/Olympus": "", "Local": "",
	} {
		e := Endpoint{Timezone: said}
		if dropped := e.DropUnknownHints(); e.Timezone != want || (len(dropped) == 1) != (said != "" && want == "") {
			t.Errorf("time zone %q: %q, dropped %q", said, e.Timezone, dropped)
		}
		if e.Timezone != "" && checkTimezone(e.Timezone) != nil {
			t.Errorf("time zone %q: %q is none", said, e.Timezone)
		}
	}
}
