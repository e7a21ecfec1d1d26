package httpapi

// Patterns are the routes of the API, for the test that compares them with the spec.
func Patterns() (patterns []string) {
	a := new(api)
	for _, rt := range a.routes() {
		patterns = append(patterns, rt.pattern)
	}
	return patterns
}

// Limits and names that tests outside the package check.
const (
	MaxBatchLines = maxBatchLines
	MaxBatchBytes = maxBatchBytes
	FeedHeartbeat = feedHeartbeat
)

var DerivedID = derivedID
