package backend

import (
	"strconv"

	"godwit.dev/godwit/internal/notify/notification"
)

// actions reads the choices that a kept notification offers.
func (s *scanner) actions(field string) (list []notification.Action, err error) {
	if s.peek() != '[' {
		return nil, s.wrongType(field, "a list of actions")
	}
	s.pos++
	for first := true; ; first = false {
		more, err := s.next(first, ']')
		if err != nil || !more {
			return list, err
		}
		if len(list) == notification.MaxActions {
			return nil, notification.BadField(field, "has more than %d actions", notification.MaxActions)
		}
		a, err := s.action(field + "[" + strconv.Itoa(len(list)) + "]")
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
}

func (s *scanner) action(field string) (a notification.Action, err error) {
	if s.peek() != '{' {
		return a, s.wrongType(field, "an object")
	}
	s.pos++
	for first := true; ; first = false {
		more, err := s.next(first, '}')
		if err != nil || !more {
			return a, err
		}
		key, err := s.key()
		if err != nil {
			return a, err
		}
		switch string(key) {
		case "id":
			a.ID, err = s.str(field + ".id")
		case "title":
			a.Title, err = s.str(field + ".title")
		case "url":
			a.URL, err = s.str(field + ".url")
		default:
			err = notification.BadField(notification.Clip(field+"."+string(key)), "is not a known field")
		}
		if err != nil {
			return a, err
		}
	}
}
