package access

import (
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// roleNames lists the roles' public names in the order of display.
var roleNames = []struct {
	role Role
	name string
}{{Publish, "publish"}, {Read, "read"}, {Worker, "worker"}, {Admin, "admin"}}

// Names lists the public names of the roles in r.
func (r Role) Names() []string {
	names := make([]string, 0, len(roleNames))
	for _, n := range roleNames {
		if r&n.role != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

func (r Role) String() string { return strings.Join(r.Names(), ",") }

// ParseRoles parses roles from their public names; there must be at least one.
func ParseRoles(names []string) (Role, error) {
	var r Role
next:
	for _, name := range names {
		for _, n := range roleNames {
			if n.name == name {
				r |= n.role
				continue next
			}
		}
		return 0, notification.BadField("roles", "%q is not a role; use publish, read, worker or admin", name)
	}
	if r == 0 {
		return 0, notification.BadField("roles", "name at least one of publish, read, worker, admin")
	}
	return r, nil
}
