package audience

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/notify/notification"
)

// DropUnknownHints removes a locale and a time zone that cannot be interpreted, and returns them. Both are hints: without
// them messages are in the usual language and hours, but a registration must not fail because they are wrong or missing.
func (e *Endpoint) DropUnknownHints() (dropped []string) {
	if known := knownLocale(e.Locale); known == "" && e.Locale != "" {
		dropped = append(dropped, fmt.Sprintf("locale: %q is not a language like fr or nb-NO and is left out", notification.Clip(e.Locale)))
		e.Locale = ""
	} else {
		e.Locale = known
	}
	if known := knownZone(e.Timezone); known == "" && e.Timezone != "" {
		dropped = append(dropped, fmt.Sprintf("timezone: %q is not a time zone like Europe/Oslo and is left out", notification.Clip(e.Timezone)))
		e.Timezone = ""
	} else {
		e.Timezone = known
	}
	return dropped
}

// knownLocale is a language tag without the additions of POSIX and Apple: en_US.UTF-8, th-TH@calendar=buddhist.
// Extensions that make a tag too long are left out. "" if nothing is left.
func knownLocale(s string) string {
	if at := strings.IndexAny(s, "@."); at >= 0 {
		s = s[:at]
	}
	s = strings.TrimSpace(s)
	if len(s) > maxLocale {
		for _, extension := range []string{"-u-", "-t-", "-x-"} {
			s, _, _ = strings.Cut(s, extension)
		}
	}
	if checkLocale(s) != nil {
		return ""
	}
	return s
}

// offset is a difference to UTC, as phones send it whose time zone was set by hand.
var offset = regexp.MustCompile(`^(?:GMT|UTC)?([+-])([0-9]{1,2})(?::?00)?$`)

const (
	leastOffset = -12 // hours: tzdata has Etc/GMT+12 to Etc/GMT-14
	mostOffset  = 14
)

// knownZone is a time zone of tzdata. Whole hours of difference to UTC are one too, which never changes its clocks; so are
// seconds, as exports of other services have them: -28800. "" if it is none.
func knownZone(s string) string {
	s = strings.TrimPrefix(strings.TrimSpace(s), ":") // POSIX writes :Europe/Oslo
	if s == "" || quiet.Zone(s) != nil {
		return s
	}
	var hours int
	if m := offset.FindStringSubmatch(s); m != nil {
		hours, _ = strconv.Atoi(m[1] + m[2])
	} else if seconds, err := strconv.Atoi(s); err == nil && seconds%3600 == 0 {
		hours = seconds / 3600
	} else {
		return ""
	}
	if hours < leastOffset || hours > mostOffset {
		return ""
	}
	return fmt.Sprintf("Etc/GMT%+d", -hours) // POSIX counts westwards
}
