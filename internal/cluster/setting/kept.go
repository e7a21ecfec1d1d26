package setting

import (
	"net"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// Recipient is a Kind whose secrets are sent to servers, or proven to them.
type Recipient interface {
	// Recipients lists the servers that values name, each with the user, like godwit@db.example:5432.
	Recipients(v Values) []string
}

// At is a user of a server, for Recipients; without a user the server alone.
func At(user, host, port string) string {
	at := net.JoinHostPort(strings.ToLower(host), port)
	if user != "" {
		at = user + "@" + at
	}
	return at
}

// CheckKept refuses a change that would send a stored secret to a server or as a user that it was not given for. Who may change a setting could
// read the secret there. change has the values that were given, and after those that would be stored. Its error is a *notification.FieldError.
func CheckKept(k Kind, before, change, after Values) error {
	var added []string
	known := recipients(k, before)
	for _, to := range recipients(k, after) {
		if !slices.Contains(known, to) {
			added = append(added, to)
		}
	}
	if len(added) == 0 {
		return nil
	}
	for _, f := range k.Fields() {
		_, given := change[f.Name]
		if f.Secret && !given && before.Text(f.Name) != "" && after.Text(f.Name) != "" {
			return notification.BadField(f.Name, "was stored for %s, and this change would send it to %s: give it again, or \"\" to do without it", strings.Join(known, ", "), strings.Join(added, ", "))
		}
	}
	return nil
}

// recipients are those of a Recipient, or else the addresses as they are.
func recipients(k Kind, v Values) []string {
	if r, ok := k.(Recipient); ok {
		return r.Recipients(v)
	}
	return v.Look(k.Fields()).Addresses
}
