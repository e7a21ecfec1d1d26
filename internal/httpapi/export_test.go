package httpapi

// Patterns are the routes of the API, for the test that compares them with the spec.
func Patterns() (patterns []string) {
	for _, rt := range routes(new(Config)) {
		patterns = append(patterns, rt.pattern)
	}
	return patterns
}
