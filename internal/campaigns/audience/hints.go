package audience

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/notify/notification"
)

// DropUnknownHints removes a locale and a time zone that cannot be interpreted, and returns a warning about each. Both are hints: without
// them, messages use the default language and hours, but a registration must not fail because of them.
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

// knownLocale returns a language tag without the additions of POSIX and Apple: en_US.UTF-8, th-TH@calendar=buddhist. It removes extensions
// from a tag that is too long. It returns "" if nothing valid remains.
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

// offset matches a UTC offset, which phones send if the time zone was set by hand.
var offset = regexp.MustCompile(`^(?:GMT|UTC)?([+-])([0-9]{1,2})(?::?00)?$`)

const (
	leastOffset = -12 // hours: tzdata has Etc/GMT+12 to Etc/GMT-14
	mostOffset  = 14
)

// knownZone returns the name of a tzdata time zone. It accepts UTC offsets of whole hours, whose clocks never change, in hours or, as some
// services export them, in seconds: -28800. It returns "" for anything else.
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
