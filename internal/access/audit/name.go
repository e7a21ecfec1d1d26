package audit

import (
	"net/http"
	"strings"
)

// Of names the action of a request, by its route's pattern and the name of its action: {…} in the name takes the path's
// value, and the object is the path's other values.
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
