package admin

import "godwit.dev/godwit/internal/access/signin"

// Routes returns the patterns of all pages and actions, with the role that each needs.
func Routes() map[string]signin.Role {
	needs := make(map[string]signin.Role)
	for pattern, rt := range (&admin{}).routes() {
		needs[pattern] = rt.role
	}
	return needs
}

// Actions returns the audit log's name of the action of each pattern.
func Actions() map[string]string {
	names := make(map[string]string)
	for pattern, rt := range (&admin{}).routes() {
		names[pattern] = rt.action
	}
	return names
}
