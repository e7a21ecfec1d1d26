// Package signin manages the people who use the web page, and their roles.
package signin

import "godwit.dev/godwit/internal/access"

// Role is a person's permission on the web page. Each role in an app includes the lower ones; Operator belongs to no app and includes none.
type Role uint8

// Roles; the zero value permits nothing.
const (
	View  Role = iota + 1 // read everything that is not secret
	Send                  // publish, recall, run campaigns, erase recipients
	Admin                 // keys, channels, hooks and all other settings of the app

	Operator // the server's apps, with their keys and settings; nothing that is in them
)

// roles are the roles with their names and the equivalent roles of API keys.
var roles = []struct {
	role Role
	name string
	key  access.Role // 0: that of no app's key
}{{Operator, "operator", 0}, {Admin, "admin", access.Admin}, {Send, "send", access.Publish}, {View, "view", access.Read}}

// RoleOf returns the role of a person who signs in with a key, so that the page permits no more than the API. If the key may neither
// publish nor read, ok is false.
func RoleOf(key access.Role) (role Role, ok bool) {
	for _, r := range roles {
		if r.key != 0 && key.Has(r.key) {
			return r.role, true
		}
	}
	return 0, false
}

// ParseRole parses a role's name.
func ParseRole(name string) (role Role, ok bool) {
	for _, r := range roles {
		if r.name == name {
			return r.role, true
		}
	}
	return 0, false
}

func (r Role) String() string {
	for _, known := range roles {
		if known.role == r {
			return known.name
		}
	}
	return "none"
}

// May reports whether r includes the needed role.
func (r Role) May(need Role) bool {
	if r == Operator || need == Operator {
		return r == need
	}
	return need != 0 && r >= need
}
