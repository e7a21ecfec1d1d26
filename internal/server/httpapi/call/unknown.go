package call

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// unknownAt finds the first member of a value, on any level, that type t lacks, and returns its path, like ".telegram.buttons[0]".
// encoding/json reports only the member's name.
func unknownAt(t reflect.Type, raw json.RawMessage) (path string, found bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return "", false // it reads what it wants
	}
	switch t.Kind() {
	case reflect.Struct:
		return unknownMember(t, raw)
	case reflect.Slice, reflect.Array:
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // null is an empty one
		for i, member := range list {
			if rest, found := unknownAt(t.Elem(), member); found {
				return "[" + strconv.Itoa(i) + "]" + rest, true
			}
		}
	case reflect.Map:
		var all map[string]json.RawMessage
		_ = json.Unmarshal(raw, &all) // the same
		for _, name := range sorted(all) {
			if rest, found := unknownAt(t.Elem(), all[name]); found {
				return "." + name + rest, true
			}
		}
	}
	return "", false
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func unknownMember(t reflect.Type, raw json.RawMessage) (path string, found bool) {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(raw, &all) // a value of another type is refused for its type
	for _, name := range sorted(all) {
		member, known := memberOf(t, name)
		if !known {
			return "." + name, true
		}
		if rest, found := unknownAt(member, all[name]); found {
			return "." + name + rest, true
		}
	}
	return "", false
}

// memberOf finds a member of a struct by its name in JSON, in embedded structs too.
func memberOf(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if strings.EqualFold(tag, name) || tag == "" && !f.Anonymous && strings.EqualFold(f.Name, name) {
			return f.Type, true
		}
	}
	return nil, false
}

func sorted(all map[string]json.RawMessage) []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
