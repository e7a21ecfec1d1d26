package audit

import (
	"net/http"
	"strings"
)

// Of returns the action and the object of a request, given its route's pattern and the action's name: each {…} in the name is replaced by
// the path's value, and the object consists of the path's other values.
func Of(r *http.Request, pattern, name string) (action, object string) {
	var values []string
	for rest := pattern; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			break
		}
		key, tail, _ := strings.Cut(after, "}")
		rest = tail
		value := r.PathValue(strings.TrimSuffix(key, "..."))
		if in := "{" + key + "}"; strings.Contains(name, in) {
			name = strings.ReplaceAll(name, in, value)
		} else if value != "" {
			values = append(values, value)
		}
	}
	return name, strings.Join(values, "/")
}
