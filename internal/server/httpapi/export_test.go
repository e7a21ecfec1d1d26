package httpapi

// Patterns are the routes of the API, for the test that compares them with the spec.
func Patterns() (patterns []string) {
	for _, rt := range routes(new(Config)) {
		patterns = append(patterns, rt.pattern)
	}
	return patterns
}

// Deeds are what routes with a role are called in the audit log.
func Deeds() map[string]string {
	names := make(map[string]string)
	for _, rt := range routes(new(Config)) {
		if rt.role != 0 {
			names[rt.pattern] = rt.deed
		}
	}
	return names
}
