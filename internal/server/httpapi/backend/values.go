package backend

import (
	"strconv"
	"time"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
)

// duration reads "30s", "7d" or whole seconds.
func (s *scanner) duration(field string) (time.Duration, error) {
	var text string
	switch c := s.peek(); {
	case c == '"':
		var err error
		if text, err = s.str(field); err != nil {
			return 0, err
		}
	case c == '-' || c >= '0' && c <= '9':
		start := s.pos
		s.word()
		text = string(s.in[start:s.pos])
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return 0, notification.BadField(field, "must be whole seconds, or a duration like \"30s\"")
		}
	default:
		return 0, s.wrongType(field, "a duration like \"30s\" or whole seconds")
	}
	return parseDuration(field, text)
}

func parseDuration(field, text string) (time.Duration, error) {
	d, err := notification.ParseDuration(text)
	if err != nil {
		return 0, notification.BadField(field, "%s", notification.Clip(err.Error()))
	}
	return d, nil
}

// positive refuses 0, which means "not given" in a draft.
func positive(field string, d time.Duration, err error) (time.Duration, error) {
	if err == nil && d == 0 {
		err = notification.BadField(field, "must be more than zero")
	}
	return d, err
}

func (s *scanner) positiveDuration(field string) (time.Duration, error) {
	d, err := s.duration(field)
	return positive(field, d, err)
}

func parsePositive(field, text string) (time.Duration, error) {
	d, err := parseDuration(field, text)
	return positive(field, d, err)
}

func (s *scanner) time(field string) (time.Time, error) {
	if s.peek() != '"' {
		return time.Time{}, s.wrongType(field, "a time like \"2006-01-02T15:04:05Z\"")
	}
	text, err := s.str(field)
	if err != nil {
		return time.Time{}, err
	}
	return parseTime(field, text)
}

func parseTime(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, notification.BadField(field, "%q is not a time; write it like 2006-01-02T15:04:05Z", notification.Clip(text))
	}
	if t.Year() < 1970 {
		return time.Time{}, notification.BadField(field, "lies before 1970")
	}
	return t, nil
}

func (s *scanner) priority(field string) (notification.Priority, error) {
	text, err := s.str(field)
	if err != nil {
		return 0, err
	}
	return parsePriority(field, text)
}

func parsePriority(field, text string) (notification.Priority, error) {
	p, ok := notification.ParsePriority(text)
	if !ok {
		return 0, notification.BadField(field, "%q is none of high, normal, low", notification.Clip(text))
	}
	return p, nil
}

// variables reads the values of a template's variables.
func (s *scanner) variables(field string) (template.Variables, error) {
	if s.peek() != '{' {
		return nil, s.wrongType(field, "an object of texts, numbers and booleans")
	}
	raw, err := s.skip()
	if err != nil {
		return nil, err
	}
	v := template.Variables{}
	if err := v.UnmarshalJSON(raw); err != nil {
		return nil, notification.BadField(field, "%s", notification.Clip(err.Error()))
	}
	return v, nil
}

func (s *scanner) boolean(field string) (bool, error) {
	c := s.peek()
	start := s.pos
	if c == 't' || c == 'f' {
		s.word()
	}
	switch string(s.in[start:s.pos]) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	s.pos = start
	return false, s.wrongType(field, "true or false")
}

func (s *scanner) settle(field string) (shown bool, err error) {
	text, err := s.str(field)
	if err != nil {
		return false, err
	}
	return notification.ParseSettle(field, text)
}

func (s *scanner) ackMode(field string) (notification.AckMode, error) {
	text, err := s.str(field)
	if err != nil {
		return 0, err
	}
	return parseAckMode(field, text)
}

func parseAckMode(field, text string) (notification.AckMode, error) {
	m, ok := notification.ParseAckMode(text)
	if !ok {
		return 0, notification.BadField(field, "%q is none of any, all, none", notification.Clip(text))
	}
	return m, nil
}
